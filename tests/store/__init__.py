"""The state file."""
