"""What the core of gRPC is told, and when."""

import subprocess
import sys
from pathlib import Path

import pytest

from governor import grpc_core

FAST = {"GRPC_EXPERIMENTS": "-event_engine_listener", "GRPC_VERBOSITY": "NONE"}


def test_what_an_operator_sets_wins() -> None:
    """The rest is ours."""
    environ = {"GRPC_EXPERIMENTS": "pollset_alternative"}
    grpc_core.tell(environ, trusting=True)

    assert environ == {"GRPC_EXPERIMENTS": "pollset_alternative", "GRPC_VERBOSITY": "NONE"}


@pytest.mark.parametrize(("trusting", "told"), [(True, FAST), (False, {"GRPC_VERBOSITY": "NONE"})])
def test_only_among_friends_one_may_have_a_thread_for_himself(trusting: bool, told: dict[str, str]) -> None:  # noqa: FBT001
    """Else a flood of frames would hold up everybody."""
    environ: dict[str, str] = {}
    grpc_core.tell(environ, trusting=trusting)

    assert environ == told


@pytest.mark.parametrize(
    ("yaml", "trusting"),
    [
        ("listen: [unix:{folder}/g.sock, 127.0.0.1:0]", True),
        ("listen: [0.0.0.0:0]\ninsecure: true", False),
        ("listen: [127.0.0.1:0]\nadmin: [0.0.0.0:0]\ninsecure: true", False),
        ("listen: [127.0.0.1:0]\nclients: {{a: {{tokens: [sha256:{digest}], verbs: [read], resources: [x]}}}}", False),
        ("listen: [127.0.0.1:0]\nnonsense: true", False),
    ],
)
def test_it_is_told_by_the_config_and_before_grpc_is_loaded(tmp_path: Path, yaml: str, trusting: bool) -> None:  # noqa: FBT001
    """After that nobody reads it."""
    config = tmp_path / "governor.yaml"
    config.write_text(yaml.format(folder=tmp_path, digest="0" * 64))
    program = f"""
import os, sys
from governor import grpc_core
from governor.cli.commands import governor
def tell(environ, *, trusting):
    print("grpc" in sys.modules, environ is os.environ, trusting, flush=True)
    os._exit(0)
grpc_core.tell = tell
governor(["serve", "--config", {str(config)!r}])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == (f"False True {trusting}\n", "")
