"""What each answer says besides: that nothing of it is to be kept, guessed at, framed or run.

It knows what browsers make of a header. It must never know what an answer is about.
"""

from typing import Final

# The name only: the versions of what is underneath are nobody's business.
HEADERS: Final = {
    "Server": "governor",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}

# All of the answer to one connection too many, which nobody has listened to.
FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
    + "".join([f"{name}: {value}\r\n" for name, value in HEADERS.items()]).encode()
    + b"Content-Length: 21\r\nConnection: close\r\n\r\ntoo many connections\n"
)
