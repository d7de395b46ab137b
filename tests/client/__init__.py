"""The client library, against a daemon in the same process."""
