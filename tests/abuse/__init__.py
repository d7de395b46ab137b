"""Abuse: what a hostile client can do to a real daemon, and what it costs everybody else."""
