"""The HTTP side: metrics, liveness and readiness."""

from governor.http.pages import Pages
from governor.http.server import HttpServer, serve

__all__ = ["HttpServer", "Pages", "serve"]
