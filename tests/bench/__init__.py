"""Measurements, run by `make bench`; never part of `make test`, because a number is not a pass."""
