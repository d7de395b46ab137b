"""Translation between the wire and the core, and the servicers."""
