"""The gRPC side: what crosses the wire becomes core events, and effects become answers."""
