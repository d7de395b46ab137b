"""The HTTP side: metrics, liveness and readiness, and the status page."""

from governor.http.door import Door
from governor.http.pages import Pages
from governor.http.server import HttpServer, serve
from governor.http.sight import Head, Sight

__all__ = ["Door", "Head", "HttpServer", "Pages", "Sight", "serve"]
