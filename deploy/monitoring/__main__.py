"""`make monitoring`: a daemon, a sample load and Prometheus, until Ctrl-C."""

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import Final, NoReturn

from deploy.monitoring.together import Places, Together, TogetherError, this_python

_WHERE: Final = """\
the daemon      http://{http}/metrics; gRPC on {grpc}: {python} -m governor.cli status --address {grpc}
Prometheus      http://{prometheus}/graph and http://{prometheus}/alerts
dashboards      deploy/monitoring/README.md says how to have them in Grafana
logs and state  {folder}

Ctrl-C ends all of them, as SIGTERM does.
"""


# A terminal that is closed ends all of them, too: they are no children of it.
_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _end(_number: int, _frame: object) -> NoReturn:
    """Once: an impatient second Ctrl-C must not leave running what the first one was about to end."""
    for ends in _ENDS:
        signal.signal(ends, signal.SIG_IGN)
    sys.exit(0)


def main(arguments: list[str]) -> int:
    """Until somebody ends it, which exits with 0, or one of them does not run any more."""
    usual = Places(Path("build/monitoring"))
    parser = argparse.ArgumentParser(prog=f"{this_python()} -m deploy.monitoring", description=__doc__)
    parser.add_argument("--folder", type=Path, default=usual.folder, help="where all of it is written")
    for name, default in (("grpc", usual.grpc), ("http", usual.http), ("prometheus", usual.prometheus)):
        parser.add_argument(f"--{name}", metavar="HOST:PORT", default=default, help=f"by default {default}")
    parser.add_argument(
        "--interval", default=usual.interval, help=f"from scrape to scrape, by default {usual.interval}"
    )
    given = parser.parse_args(arguments)
    places = Places(given.folder.absolute(), given.grpc, given.http, given.prometheus, given.interval)
    for ends in _ENDS:
        signal.signal(ends, _end)
    try:
        with Together(places) as together:
            where = {"http": places.http, "grpc": places.grpc, "prometheus": places.prometheus}
            print(_WHERE.format(folder=places.folder, python=this_python(), **where), flush=True)
            while True:
                together.check()
                time.sleep(1)
    except TogetherError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
