"""`python -m tests.bench`: measure, print each figure beside its target, write them as JSON.

Exit code 1 when a target was missed, so that nobody has to read the lines to see it.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.bench import calls, engine, machine, process, reload, session_handler, sessions, sizes, state
from tests.bench.figures import Report

_SECTIONS: Final[dict[str, Callable[[Report], None]]] = {
    "engine": engine.run,
    "session": session_handler.run,
    "daemon": calls.run,
    "process": process.run,
    "reload": reload.run,
    "sessions": sessions.run,
    "state": state.run,
    "sizes": sizes.run,
}


def main() -> int:
    """Measure the sections asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", choices=_SECTIONS, action="append", help="measure only this; may be repeated")
    parser.add_argument(
        "--json", type=Path, default=Path("build/bench.json"), help="where the figures go (%(default)s)"
    )
    arguments = parser.parse_args()
    facts = machine.facts()
    for name, fact in facts.items():
        print(f"{name:>10}: {fact}")
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 2:
        print(
            f"\nother programs are busy here (load {load:.1f} on {cores} cores): what is a time or a rate may be worse"
        )
    report = Report()
    for name in arguments.only or _SECTIONS:
        _SECTIONS[name](report)
    report.write(arguments.json, facts)
    print(f"\n{report.misses} missed; written to {arguments.json}")
    return 1 if report.misses else 0


sys.exit(main())
