"""Tests of `governor.audit`."""
