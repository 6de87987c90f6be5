"""The jobs of a home: work that is done at times of its own, not on request.

`runner` runs jobs by their `schedule`, one run of each at a time, and keeps a receipt of each run in the journal. `job`
defines what a job is. Every other module is one job; the gateway gives it the functions that it works with.

A new job is a module here, its table in `fusion.settings.JobsSettings`, and an entry in `fusion.gateway.home_jobs`.
"""
