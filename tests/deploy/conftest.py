"""Daemons for these tests, as for those of the whole."""

from tests.e2e.conftest import connect, folder, start

__all__ = ["connect", "folder", "start"]
