"""The `governor` command."""
