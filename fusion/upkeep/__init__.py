"""Work on a home in the background: jobs at times of their own, and the comparison of new statements.

`runner` runs jobs by their `schedule`, one run of each at a time, and keeps a receipt of each run in the journal. `job`
defines what a job is. `checks`, `consolidation`, `lifecycle`, `receipts` and `vectors` are one job each; the gateway
gives them the functions that they work with. A new job is a module here, its table in `fusion.settings.JobsSettings`,
and an entry in `fusion.gateway.home_jobs`.

`consolidator` compares each new statement with earlier ones; `consolidate` decides, by `fusion.lib.restatement` and
`contradict`.
"""
