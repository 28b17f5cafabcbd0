"""A reference inference engine: the shared model behind SGLang's HTTP API.

From the outside in: `server` speaks HTTP, `generate` turns one call into requests, `core` runs the
device loop and swaps weights, `scheduler` and `slots` decide what runs where, `device` and `decode`
compute it. Start it with `python -m headrace.engine`.
"""
