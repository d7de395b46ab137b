"""The library that programs import; it knows the protocol and no module of the server."""
