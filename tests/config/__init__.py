"""Tests of `governor.config`."""
