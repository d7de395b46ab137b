"""What the core of gRPC is told, and when."""

import os
import subprocess
import sys

from governor import grpc_core


def test_what_an_operator_sets_wins() -> None:
    """The rest is ours."""
    environ = {"GRPC_EXPERIMENTS": "pollset_alternative"}
    grpc_core.tell(environ)

    assert environ == {"GRPC_EXPERIMENTS": "pollset_alternative", "GRPC_VERBOSITY": "NONE"}


def test_it_is_told_before_grpc_is_loaded() -> None:
    """After that nobody reads it."""
    program = """
import os, sys
from governor import grpc_core
from governor.cli.commands import governor
grpc_core.tell = lambda environ: print("grpc" in sys.modules, environ is os.environ)
governor(["serve", "--config", "/nowhere"])
"""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)

    assert done.stdout == "False True\n"
