"""Generates `governor/v1` from the `.proto` files here; `--check` only says whether it is stale.

The proto package and the Python package have the same name, so what protoc writes is importable as it is.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

PROTO = Path(__file__).resolve().parent
ROOT = PROTO.parent
GENERATED = "governor/v1"
PATTERN = "*_pb2*.py*"  # modules and their stubs; the package's own __init__.py is written by hand


def generate(into: Path) -> None:
    """Writes the modules and their type stubs below the folder `into`."""
    bin_ = Path(sys.executable).parent
    status = protoc.main(
        [
            "protoc",
            f"--plugin=protoc-gen-mypy={bin_ / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={bin_ / 'protoc-gen-mypy_grpc'}",
            f"--proto_path={PROTO}",
            f"--proto_path={Path(grpc_tools.__file__).parent / '_proto'}",
            f"--python_out={into}",
            f"--grpc_python_out={into}",
            f"--mypy_out=quiet:{into}",
            f"--mypy_grpc_out=quiet:{into}",
            *sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto")),
        ]
    )
    if status != 0:
        sys.exit(status)


def texts(root: Path) -> dict[str, str]:
    """Every generated file below `root`, by its path there."""
    return {str(path.relative_to(root)): path.read_text("utf-8") for path in (root / GENERATED).glob(PATTERN)}


def main() -> None:
    """Regenerates, or compares with a fresh generation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the code is stale")
    check = parser.parse_args().check

    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = texts(Path(scratch))
    committed = texts(ROOT)
    stale = sorted(name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name))

    if check and stale:
        sys.exit("stale, run `make proto`: " + ", ".join(stale))
    for name in stale:
        if name in fresh:
            (ROOT / name).write_text(fresh[name], "utf-8")
        else:
            (ROOT / name).unlink()
        print(name)


if __name__ == "__main__":
    main()
