"""The engine alone: no event loop, no clock, no I/O. Covered to the last branch."""
