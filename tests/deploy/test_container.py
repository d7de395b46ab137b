"""The image and the composition: judged by what reads such files, and held against what they name.

No container engine is needed: what a build copies is copied here, and made into a wheel in the same way.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import pytest
import yaml
from compose_spec import PyCompose

from governor.address import UnixAddress
from governor.cli.commands import COMMANDS
from governor.config import Config, load
from tests.deploy.dockerfile import DEPLOY, DOCKERFILE, ROOT, copied, ignored, steps, told
from tests.e2e.process import BOUND

_CONTAINER: Final = DEPLOY / "container"
_COMPOSE: Final = _CONTAINER / "compose.yaml"
Yaml = dict[str, Any]


def _service(name: str) -> Yaml:
    return cast("Yaml", yaml.safe_load(_COMPOSE.read_text(encoding="utf-8"))["services"][name])


def _mounts(name: str) -> dict[str, str]:
    """What of a service is where in its container."""
    found = {target: source for source, target, *_ in (mount.split(":") for mount in _service(name)["volumes"])}
    configs = yaml.safe_load(_COMPOSE.read_text(encoding="utf-8"))["configs"]
    for config in _service(name).get("configs", ()):
        found[config["target"]] = f"./{configs[config['source']]['file']}"
    return found


def _here(name: str, path: str) -> Path:
    """The file of this checkout that is at a path in the container of a service."""
    for target, source in _mounts(name).items():
        if Path(path).is_relative_to(target):
            return (_CONTAINER / source / Path(path).relative_to(target)).resolve()
    raise AssertionError(f"{name} mounts nothing that has {path}")


# --- the image ------------------------------------------------------------------------------------------------


def test_hadolint_has_nothing_to_say(program: Callable[[str], str]) -> None:
    """Of the least that it could say."""
    lint = subprocess.run(
        [program("hadolint"), "--failure-threshold=style", DOCKERFILE],
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )

    assert (lint.returncode, lint.stdout, lint.stderr) == (0, "", "")


def test_all_that_is_copied_is_there_and_may_be() -> None:
    """Nothing of it is kept out by the file beside the Dockerfile; all else is."""
    for source in copied():
        assert (ROOT / source).exists(), source
        assert not ignored(source), source
    assert not ignored("governor/core/engine.py")
    for other in ("tests/conftest.py", ".git/config", "state/state.db", "governor/core/__pycache__/engine.pyc"):
        assert ignored(other), other


def test_the_wheel_is_made_from_what_is_copied(tmp_path: Path) -> None:
    """By the command of the Dockerfile, with no other file of the checkout."""
    for source, target in copied().items():
        if target.startswith("./"):
            into = tmp_path / target / ("" if (ROOT / source).is_dir() else source)
            copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
            copy(ROOT / source, into)
    found = re.search(
        r"/build/bin/python (-m hatchling build -t wheel -d) /wheels", DOCKERFILE.read_text(encoding="utf-8")
    )
    assert found is not None
    command = [sys.executable, *found[1].split(), str(tmp_path / "wheels")]
    subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=BOUND, check=True)

    assert len(list((tmp_path / "wheels").glob("governord-*.whl"))) == 1


def test_the_image_is_pinned_and_runs_as_nobody_in_particular() -> None:
    """A release to the last number; a user with a number, which may write to its volumes alone."""
    assert re.fullmatch(r"PYTHON=python:3\.\d+\.\d+-slim-\w+", told("ARG")[0])
    assert set(told("FROM")) == {"${PYTHON} AS build", "${PYTHON}"}
    user = told("USER")[0]
    assert re.fullmatch(r"(\d{4,}):\1", user)
    assert f"--uid {user.partition(':')[0]}" in " ".join(told("RUN"))
    assert steps()[-1][0] == "CMD"


def test_the_image_serves_what_it_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its config is in order, its folders are its volumes, and it asks after its health where it listens."""
    config = load(ROOT / next(source for source, target in copied().items() if target.startswith("/etc/")), {})
    serve, health = (json.loads(re.sub(r"^[^\[]*", "", words)) for words in (told("CMD")[0], told("HEALTHCHECK")[0]))
    volumes = json.loads(told("VOLUME")[0])

    assert copied()["deploy/container/governor.yaml"] == serve[serve.index("--config") + 1]
    assert serve[serve.index("--state") + 1] == str(config.state)
    assert {str(config.state), *(str(Path(path).parent) for path in _sockets(config))} == set(volumes)
    assert {serve[0], health[1]} <= {*COMMANDS, "serve"}
    assert any(f"GOVERNOR_ADDRESS=unix:{path}" in words for path in _sockets(config) for words in told("ENV"))
    assert not config.warnings


def _sockets(config: Config) -> set[str]:
    return {str(address.path) for address in config.listen if isinstance(address, UnixAddress)}


# --- the composition ------------------------------------------------------------------------------------------


def test_the_composition_is_one() -> None:
    """By the specification, every key of it; a key that is none is refused."""
    text = _COMPOSE.read_text(encoding="utf-8")

    assert set(PyCompose.from_yaml(text).service_names()) == {"governor", "load", "prometheus", "grafana"}
    PyCompose.from_yaml(text).validate()
    with pytest.raises(ValueError, match="read_onlyy"):
        PyCompose.from_yaml(text.replace("read_only:", "read_onlyy:"))


@pytest.mark.parametrize("name", ["governor", "load", "prometheus", "grafana"])
def test_every_service_has_what_it_mounts(name: str) -> None:
    """Files are in the checkout, volumes are declared, images are pinned, and nothing is open to other machines."""
    service = _service(name)
    declared = yaml.safe_load(_COMPOSE.read_text(encoding="utf-8"))["volumes"]
    for source in _mounts(name).values():
        assert (_CONTAINER / source).exists() if source.startswith(".") else source in declared, source

    assert service["image"] == "governor" or re.fullmatch(r"[\w/]+:v?\d+\.\d+\.\d+", service["image"])
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_daemon_and_its_load_meet() -> None:
    """At a socket in a volume that both mount, over resources that the config has; the drain has the time it needs."""
    config = load(_here("governor", "/etc/governor/governor.yaml"), {})
    (socket,) = _sockets(config)

    assert _service("load")["entrypoint"][1:] == ["/srv/load.py", f"unix:{socket}"]
    folder = str(Path(socket).parent)
    assert _mounts("load")[folder] == _mounts("governor")[folder]
    assert _here("load", "/srv/load.py") == DEPLOY / "monitoring/load.py"
    asked = set(re.findall(r"acquire\(\"([\w-]+)\"", (DEPLOY / "monitoring/load.py").read_text(encoding="utf-8")))
    assert asked == {spec.name for spec in config.resources}
    assert str(config.state) in _mounts("governor")
    grace = _service("governor")["stop_grace_period"]
    assert int(grace.removesuffix("s")) * 10**9 > config.drain_timeout


def test_prometheus_scrapes_the_daemon_and_knows_the_rules() -> None:
    """Under the name of the service, at the port of its pages; what it is told is where its command looks."""
    config = load(_here("governor", "/etc/governor/governor.yaml"), {})
    told_to = next(word for word in _service("prometheus")["command"] if word.startswith("--config.file="))
    scrape = yaml.safe_load(_here("prometheus", told_to.partition("=")[2]).read_text(encoding="utf-8"))

    assert config.http is not None
    assert scrape["scrape_configs"][0]["static_configs"] == [{"targets": [f"governor:{config.http.address.port}"]}]
    (rules,) = scrape["rule_files"]
    assert {path.name for path in _here("prometheus", str(Path(rules).parent)).glob("*.yaml")} == {
        "alerts.yaml",
        "recording.yaml",
    }
    networks = [set(_service(name)["networks"]) for name in ("governor", "prometheus", "grafana")]
    assert set.intersection(*networks)


def test_promtool_accepts_the_config_of_prometheus(program: Callable[[str], str]) -> None:
    """But for the rules, which are judged by themselves and are elsewhere than in the container."""
    command = [program("promtool"), "check", "config", "--syntax-only", str(_CONTAINER / "prometheus.yaml")]
    check = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False)

    assert check.returncode == 0, check.stdout + check.stderr


def test_grafana_finds_its_source_and_its_dashboards() -> None:
    """Each variable that the provisioning names is set, to what is there."""
    environment = _service("grafana")["environment"]
    provisioning = DEPLOY / "monitoring/grafana/provisioning"
    named = {
        name
        for file in provisioning.glob("*/*.yaml")
        for name in re.findall(r": \$(\w+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    }

    assert named == {"PROMETHEUS_URL", "GOVERNOR_DASHBOARDS"}
    assert named <= set(environment)
    assert environment["PROMETHEUS_URL"] == "http://prometheus:9090"
    assert list(_here("grafana", environment["GOVERNOR_DASHBOARDS"]).glob("*.json"))
    assert _here("grafana", environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]).is_file()
    assert _here("grafana", "/etc/grafana/provisioning") == provisioning
