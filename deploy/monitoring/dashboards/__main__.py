"""Writes the dashboards as Grafana reads them, or says which of the committed files are stale.

python -m deploy.monitoring.dashboards            write them
python -m deploy.monitoring.dashboards --check    change nothing; exit 1 if they are not what would be written
"""

import json
import sys
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.monitoring.dashboards import client, daemon, overview, resource
from deploy.monitoring.dashboards.board import Board

FOLDER: Final = Path(__file__).parents[1] / "grafana" / "dashboards"


def boards() -> tuple[Board, ...]:
    """All there are."""
    return overview.board(), resource.board(), client.board(), daemon.board()


def written() -> dict[Path, str]:
    """Each file with what belongs into it."""
    return {
        FOLDER / f"{board.uid}.json": json.dumps(board.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"
        for board in boards()
    }


def stale() -> list[str]:
    """The names of files that are not what would be written, or that nobody would write."""
    files = written()
    there = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    return sorted(path.name for path in files.keys() | there.keys() if files.get(path) != there.get(path))


def main(arguments: list[str]) -> int:
    """Writes, or checks."""
    if arguments == ["--check"]:
        names = stale()
        if names:
            print(f"not what the Python says: {', '.join(names)}; run: make dashboards", file=sys.stderr)
        return 1 if names else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale():
        (FOLDER / name).unlink(missing_ok=True)
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
