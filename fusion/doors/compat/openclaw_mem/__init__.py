"""openclaw-mem (seed 004) over the fused memory: its records, its receipts and its roles, for all three doors.

`Ledger` does what openclaw-mem's commands do, through a client of the gateway, and returns what they print. The gateway
on a port of its own, the MCP tools and `fusion mem` put their own envelopes around that.
"""
