"""The `governor` command: output and exit codes."""
