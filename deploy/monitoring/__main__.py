"""`make monitoring`: a daemon, a sample load and Prometheus, until Ctrl-C.

python -m deploy.monitoring [FOLDER]    where everything is written; build/monitoring unless it is said
"""

import contextlib
import signal
import sys
import time
from pathlib import Path
from typing import Final

from deploy.monitoring.together import Places, Together, TogetherError

_WHERE: Final = """\
the daemon      http://{http}/metrics, and `governor status`
Prometheus      http://{prometheus}/graph and http://{prometheus}/alerts
dashboards      deploy/monitoring/grafana: how to have them in Grafana is in deploy/monitoring/README.md
logs and state  {folder}

Ctrl-C ends all of them.
"""


def main(arguments: list[str]) -> int:
    """Until somebody ends it, or one of them does not run any more."""
    places = Places(Path(arguments[0] if arguments else "build/monitoring").absolute())
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt):
        try:
            with Together(places) as together:
                print(_WHERE.format(http=places.http, prometheus=places.prometheus, folder=places.folder), flush=True)
                while True:
                    together.check()
                    time.sleep(1)
        except TogetherError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
