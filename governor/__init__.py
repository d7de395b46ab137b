"""Permission to use scarce things, handed out in a fair line and taken back on time.

This package root knows the version and nothing else: importing `governor` is free of side effects, so the
client, the daemon and the command line each pay only for what they import.
"""

__version__ = "0.1.0"
