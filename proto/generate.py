"""Generates `governor/pb` from the `.proto` files beside this script; `--check` only says whether it is stale.

protoc names Python modules after the proto path, which would claim the top-level import `governor.v1`. The generated
files are therefore moved below `governor.pb`, with their imports of each other rewritten and nothing else.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

PROTO = Path(__file__).resolve().parent
TARGET = PROTO.parent / "governor" / "pb"
PACKAGE = '"""Generated from proto/ by `make proto`; never edited."""\n'
# Only where a module is named: in an import, in a dotted use of one, in the name protobuf gives to messages.
MODULE = re.compile(r"\bgovernor\.(v\d+)(?= import |\.\w+_pb2)")


def generate(into: Path) -> None:
    """Writes the generated package to the folder `into`."""
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        status = protoc.main(
            [
                "protoc",
                f"--plugin=protoc-gen-mypy={Path(sys.executable).parent / 'protoc-gen-mypy'}",
                f"--plugin=protoc-gen-mypy_grpc={Path(sys.executable).parent / 'protoc-gen-mypy_grpc'}",
                f"--proto_path={PROTO}",
                f"--proto_path={Path(grpc_tools.__file__).parent / '_proto'}",
                f"--python_out={scratch}",
                f"--grpc_python_out={scratch}",
                f"--mypy_out=quiet:{scratch}",
                f"--mypy_grpc_out=quiet:{scratch}",
                *sources,
            ]
        )
        if status != 0:
            sys.exit(status)
        made = Path(scratch) / "governor"
        for path in sorted(made.rglob("*.py*")):
            home = into / path.relative_to(made)
            home.parent.mkdir(parents=True, exist_ok=True)
            home.write_text(MODULE.sub(r"governor.pb.\1", path.read_text("utf-8")), "utf-8")
            (home.parent / "__init__.py").write_text(PACKAGE, "utf-8")
        (into / "__init__.py").write_text(PACKAGE, "utf-8")


def contents(folder: Path) -> dict[str, str]:
    """Every generated file below `folder`, by its relative path."""
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in sorted(folder.rglob("*.py*"))}


def main() -> None:
    """Regenerates, or compares with a fresh generation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if governor/pb is stale")
    only_check = parser.parse_args().check
    if not any(PROTO.rglob("*.proto")):
        return
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = contents(Path(scratch))
    old = {name: text for name, text in contents(TARGET).items() if "__pycache__" not in name}
    stale = sorted(name for name in fresh.keys() | old.keys() if fresh.get(name) != old.get(name))
    if only_check:
        if stale:
            sys.exit("governor/pb is stale, run: make proto\n  " + "\n  ".join(stale))
        return
    for name in stale:
        path = TARGET / name
        if name in fresh:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fresh[name], "utf-8")
        else:
            path.unlink()
        print(f"governor/pb/{name}")


if __name__ == "__main__":
    main()
