"""mem0 over the fused memory: its routes, its fields and its errors, for clients that were written for it.

`Memories` does what mem0's calls do, through a client of the gateway. The routes in `fusion.doors.http.mem0` are those
of mem0's own server and those that the package's `MemoryClient` calls.
"""
