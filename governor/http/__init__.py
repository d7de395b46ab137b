"""The HTTP side: metrics, liveness and readiness, and the status page."""

from governor.http.pages import Pages
from governor.http.server import HttpServer, serve
from governor.http.sight import Head, Sight

__all__ = ["Head", "HttpServer", "Pages", "Sight", "serve"]
