"""A daemon with a fault: a renewal for an odd number of nanoseconds is an exception."""

import sys

from google.protobuf.duration_pb2 import Duration

from governor.cli.main import main
from governor.core.types import Nanos
from governor.rpc import fields, translate


def be_faulty() -> None:
    """From now on."""
    read = fields.length_of

    def careless(field: str, duration: Duration) -> Nanos:
        return 1 // (1 - duration.nanos % 2) and read(field, duration)

    translate.length_of = careless  # type: ignore[attr-defined]  # what it imports is its own from here on


if __name__ == "__main__":
    be_faulty()
    sys.argv.insert(1, "serve")
    sys.exit(main())
