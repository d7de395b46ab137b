"""Fuzz: random input for all that strangers can reach, the gRPC surface and the YAML of a config."""
