"""The HTTP side: metrics, liveness, readiness and the status page."""
