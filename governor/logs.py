"""The log: one line an event, for people, on standard error.

It knows how a line looks. It must never know what is worth one.
"""

import logging
import sys


def start() -> None:
    """Send every log record of this process to standard error, from INFO up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s", "%Y-%m-%d %H:%M:%S"))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
