"""The client library: its parts alone, with hand-moved time, and the whole of it against a daemon."""
