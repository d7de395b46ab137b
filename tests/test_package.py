"""What a checkout promises before any of its code runs."""

from importlib import metadata, resources
from pathlib import Path

import governor

ROOT = Path(__file__).resolve().parent.parent


def test_the_version_has_one_source() -> None:
    """The installed distribution and the package name the same version."""
    assert metadata.version("governord") == governor.__version__


def test_the_embedded_defaults_are_the_example_file() -> None:
    """What the daemon runs on without a file is, byte for byte, `config/governor.yaml`."""
    embedded = resources.files(governor).joinpath("default.yaml").read_bytes()

    assert embedded == (ROOT / "config" / "governor.yaml").read_bytes()
