"""The test kit: a daemon in the process, and its fixture."""
