"""What is read in: files, notes and sessions, with the watchers that follow them.

`readers` turns files into memories, `sessions` and `turns` read agents' transcripts, `bookmarks` remembers how far each
file was read, `ingest_lock` keeps two processes from reading files at once, and `note_watcher` and `session_watcher`
run in the server.
"""
