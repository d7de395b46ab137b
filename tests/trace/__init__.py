"""Spans of asks and holds."""
