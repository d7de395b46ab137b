"""A web server of eight processes that share three database connections, as under gunicorn.

    python workers.py [PORT]

Each request borrows a connection for as long as it needs one. With 8 workers that each had "a pool of 3" there would
be 24. Needs a daemon on workers.yaml; it is found as every client finds it.
"""

import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Final

from governor import Client, NotGranted, Unavailable

WORKERS: Final = 8
QUERY_SECONDS: Final = 0.05
HEARD: Final = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}

# Made once, before the workers are forked: nothing happens until one of them asks, on a session of its own.
gov = Client(name="shop")


def orders() -> dict[str, object]:
    """One request: a connection is borrowed, used, and given back whatever happens in between."""
    with gov.acquire("orders-db", wait=5) as lease:
        began = time.monotonic()
        rows = query(lease.member.attributes["endpoint"])
        return {"rows": rows, "worker": os.getpid(), "began": began, "ended": time.monotonic()}


def query(endpoint: str) -> str:
    """Stands for a query on a connection of its own."""
    time.sleep(QUERY_SECONDS)
    return f"from {endpoint}"


class Handler(BaseHTTPRequestHandler):
    """Answers every GET with what `orders` says."""

    def do_GET(self) -> None:
        """A refusal becomes the answer that HTTP has for it."""
        try:
            body, status, after = json.dumps(orders()), 200, None
        except (NotGranted, Unavailable) as refusal:
            body, status, after = str(refusal), 503, getattr(refusal, "retry_after", None)
        self.send_response(status)
        if after is not None:
            self.send_header("Retry-After", str(round(after + 0.5)))
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Not a line for each request."""


class Server(HTTPServer):
    """Listens for all workers."""

    request_queue_size = 128


def fork(server: Server) -> int:
    """Start a worker, which takes requests from the socket that all of them share; its pid."""
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        server.serve_forever()
    return pid


def main(port: int = 8000) -> int:
    """Keep all workers running until SIGTERM or Ctrl-C; which of them it was."""
    # They are heard one after the other, by sigwait: none comes between a fork and the note of it, or gets lost there.
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    with Server(("127.0.0.1", port), Handler) as server:
        # Several workers wake up for one request; who comes late must not block.
        server.socket.setblocking(False)  # noqa: FBT003
        workers = {fork(server) for _ in range(WORKERS)}
        print(f"http://127.0.0.1:{server.server_port} is served by {len(workers)} workers", flush=True)
        while (heard := signal.sigwait(HEARD)) == signal.SIGCHLD:
            for dead in [pid for pid in workers if os.waitpid(pid, os.WNOHANG)[0]]:
                workers.remove(dead)
                workers.add(fork(server))
                print(f"worker {dead} died and was replaced", flush=True)
        # Nobody has waited for these, so their pids are theirs, also if they have ended.
        for pid in workers:
            os.kill(pid, signal.SIGTERM)
    return heard


if __name__ == "__main__":
    if main(*map(int, sys.argv[1:])) == signal.SIGINT:
        sys.exit(130)
