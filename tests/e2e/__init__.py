"""The real daemon as a process of its own, with real signals, sockets and crashes."""
