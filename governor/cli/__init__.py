"""The `governor` command.

It knows how people and scripts speak with the daemon and how its answers look on a terminal. It must never
decide anything: whatever it says about a resource or a lease, the daemon said.

Start-up time is part of the design: a module here imports only click and light neighbours at its top, and
what is heavy (grpc, the daemon, the config) inside the function that needs it.
"""
