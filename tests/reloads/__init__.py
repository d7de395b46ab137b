"""Reloads, one after the other, in every way in which a file can change, under load; judged by what clients saw."""
