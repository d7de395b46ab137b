"""The contracts about imports: that they speak of everything there is."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONTRACTS = {
    contract["name"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
MODULES = {
    path.stem
    for path in (ROOT / "governor").iterdir()
    if path.stem != "__init__" and (path.suffix == ".py" or (path / "__init__.py").exists())
}


@pytest.mark.parametrize(
    "name",
    ["imports go one way: cli, daemon, rpc and http, shells, core", "the client knows no module of the server"],
)
def test_every_module_has_its_layer(name: str) -> None:
    """One that is in none may import whatever it likes, and be imported by anybody."""
    named = re.findall(r"governor\.(\w+)", " ".join(CONTRACTS[name]["layers"]))

    assert sorted(named) == sorted(MODULES)
