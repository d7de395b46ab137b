"""Metrics exposition, health endpoints and the status page."""
