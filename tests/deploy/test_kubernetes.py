"""Each overlay as it would be applied: by the schemas of Kubernetes, and whether its parts fit one another."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import kubernetes_validate
import pytest
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

import governor
from deploy.kubernetes.__main__ import MADE, RULES, made
from governor.address import TcpAddress, UnixAddress
from governor.cli.commands import COMMANDS
from governor.config import Config, load
from tests.deploy.kustomize import KUBERNETES, OVERLAYS, Resource, built, containers, pods
from tests.e2e.process import BOUND

# The first with native sidecars, and the last that is known here.
_VERSIONS: Final = ("1.29", kubernetes_validate.latest_version())
_CUSTOM: Final = "monitoring.coreos.com/"
_LINT: Final = YamlLintConfig(
    "extends: default\n"
    "rules: {line-length: {max: 140}, document-start: disable, comments: {min-spaces-from-content: 1},"
    " braces: {max-spaces-inside: 0}, quoted-strings: disable}\n"
)

each_overlay: Final = pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)


def _of_kind(resources: list[Resource], kind: str) -> list[Resource]:
    return [one for one in resources if one["kind"] == kind]


def _config(resources: list[Resource], folder: Path) -> Config:
    (found,) = _of_kind(resources, "ConfigMap")
    file = folder / "governor.yaml"
    file.write_text(found["data"]["governor.yaml"], encoding="utf-8")
    return load(file, {"POD_IP": "10.0.0.1"})


def _daemon(resources: list[Resource]) -> Resource:
    (found,) = (one for each in resources for one in containers(each) if one["name"] == "governor")
    return found


def test_yamllint_has_nothing_to_say() -> None:
    """Of no file that is written by hand; in none of the others is anything but what a program wrote."""
    problems = [
        f"{path}:{problem}"
        for path in KUBERNETES.rglob("*.yaml")
        if path != MADE
        for problem in linter.run(path.read_text(encoding="utf-8"), _LINT)
    ]

    assert problems == []


@each_overlay
@pytest.mark.parametrize("version", _VERSIONS)
def test_kubernetes_takes_it(overlay: Path, version: str) -> None:
    """Every resource by its schema, and with no key that is none; those of the Prometheus operator have other tests."""
    ours = [one for one in built(overlay) if not one["apiVersion"].startswith(_CUSTOM)]
    assert ours
    for resource in ours:
        kubernetes_validate.validate(resource, version, strict=True)


def test_a_key_that_is_none_is_refused() -> None:
    """So that it is taken means something."""
    (deployment,) = _of_kind(built(KUBERNETES / "overlays/sidecar"), "Deployment")
    deployment["spec"]["template"]["spec"]["initContainers"][0]["restartPolice"] = "Always"

    with pytest.raises(kubernetes_validate.ValidationError, match="restartPolice"):
        kubernetes_validate.validate(deployment, _VERSIONS[-1], strict=True)


@each_overlay
def test_the_daemon_finds_what_it_is_told(overlay: Path, tmp_path: Path) -> None:
    """Its config is in order, each path in it is in a volume that is mounted, and each port that it opens is named."""
    resources = built(overlay)
    config, daemon = _config(resources, tmp_path), _daemon(resources)
    mounts = {mount["mountPath"]: mount["name"] for mount in daemon["volumeMounts"]}
    args = daemon["args"]

    assert args[args.index("--config") + 1] == "/etc/governor/governor.yaml"
    assert mounts["/etc/governor"] == "config"
    assert args[args.index("--state") + 1] == str(config.state)
    addresses = (*config.listen, *config.admin)
    written = {str(address.path.parent) for address in addresses if isinstance(address, UnixAddress)}
    read = set() if config.tls is None else {str(config.tls.cert.parent), str(config.tls.key.parent)}
    assert {str(config.state), *written, *read} <= set(mounts)
    assert config.http is not None
    open_ports = {address.port for address in addresses if isinstance(address, TcpAddress)} | {config.http.address.port}
    assert {port["containerPort"] for port in daemon["ports"]} == open_ports
    (pod,) = (pod for each in resources for pod in pods(each))
    assert {
        mount["name"] for each in resources for one in containers(each) for mount in one.get("volumeMounts", ())
    } == {volume["name"] for volume in pod["spec"]["volumes"]}
    assert pod["spec"]["terminationGracePeriodSeconds"] * 10**9 > config.drain_timeout + 10 * 10**9


@each_overlay
def test_it_is_asked_after_its_health(overlay: Path) -> None:
    """By the command, at the address that the image says; it is not killed for what a restart would not mend."""
    daemon = _daemon(built(overlay))

    assert daemon["startupProbe"]["exec"]["command"] == ["governor", "health"]
    shell = daemon["livenessProbe"]["exec"]["command"]
    assert shell[:2] == ["sh", "-c"]
    for answer, lives in ((0, True), (75, True), (3, False), (1, False)):
        script = shell[2].replace("governor health", f"(exit {answer})")
        assert (subprocess.run(["sh", "-c", script], check=False, timeout=BOUND).returncode == 0) is lives
    assert "health" in COMMANDS


@each_overlay
def test_it_may_do_little(overlay: Path) -> None:
    """No container writes but into volumes, gains anything, or has capabilities but those it names; all are bounded."""
    for resource in built(overlay):
        for pod in pods(resource):
            assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
            assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert pod["spec"]["automountServiceAccountToken"] is False
        for container in containers(resource):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"]["drop"] == ["ALL"]
            assert set(container["resources"]) == {"requests", "limits"}
            assert container["image"] == f"governor:{governor.__version__}"


@each_overlay
def test_prometheus_finds_it(overlay: Path) -> None:
    """By the label of the pod and the name of the port of its pages; a policy, if there is one, lets it through."""
    resources = built(overlay)
    (monitor,) = _of_kind(resources, "PodMonitor")
    (pod,) = (pod for each in resources for pod in pods(each))
    ports = {port["name"]: port["containerPort"] for port in _daemon(resources)["ports"]}

    assert monitor["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert ports[endpoint["port"]] == 7412
    for policy in _of_kind(resources, "NetworkPolicy"):
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        named = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert named == set(ports)


def test_the_sidecar_is_there_for_the_whole_life_of_the_application() -> None:
    """Both at one socket, in one group; the command of the example is one."""
    resources = built(KUBERNETES / "overlays/sidecar")
    (deployment,) = _of_kind(resources, "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    (daemon,), (application,) = spec["initContainers"], spec["containers"]

    assert daemon["restartPolicy"] == "Always"
    assert spec["shareProcessNamespace"] is True
    assert application["env"] == [{"name": "GOVERNOR_ADDRESS", "value": "unix:/run/governor/governor.sock"}]
    assert {"name": "run", "mountPath": "/run/governor"} in application["volumeMounts"]
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]
    assert application["command"][1] in COMMANDS


def test_no_two_of_them_lend_the_same() -> None:
    """Neither while one takes the place of another."""
    (shared,) = _of_kind(built(KUBERNETES / "overlays/shared"), "Deployment")
    (node,) = _of_kind(built(KUBERNETES / "overlays/node"), "DaemonSet")

    assert (shared["spec"]["replicas"], shared["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert node["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0


def test_the_service_leads_to_the_daemon() -> None:
    """By labels, to the port of gRPC."""
    resources = built(KUBERNETES / "overlays/shared")
    (service,) = _of_kind(resources, "Service")
    (deployment,) = _of_kind(resources, "Deployment")
    (port,) = service["spec"]["ports"]

    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert {"name": port["targetPort"], "containerPort": port["port"]} in _daemon(resources)["ports"]
    (claim,) = _of_kind(resources, "PersistentVolumeClaim")
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    assert {"name": "state", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}} in volumes


def test_what_goes_between_pods_is_encrypted(tmp_path: Path) -> None:
    """By the files of a Secret as cert-manager and kubectl make them, which only the group of the daemon may read."""
    resources = built(KUBERNETES / "overlays/shared")
    config = _config(resources, tmp_path)
    (deployment,) = _of_kind(resources, "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    (secret,) = (each["secret"] for each in spec["volumes"] if "secret" in each)

    assert [address.tls for address in config.listen if isinstance(address, TcpAddress)] == [True]
    assert config.tls is not None
    assert (config.tls.cert.name, config.tls.key.name) == ("tls.crt", "tls.key")
    assert secret["defaultMode"] == 0o440
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]
    readme = (KUBERNETES / "README.md").read_text(encoding="utf-8")
    assert f"kubectl create secret tls {secret['secretName']} -n governor" in readme


@each_overlay
def test_the_image_that_the_readme_makes_is_the_one_that_is_pulled(overlay: Path) -> None:
    """An image without a tag would be another, which no registry has."""
    readme = (KUBERNETES / "README.md").read_text(encoding="utf-8")
    told = yaml.safe_load((overlay / "kustomization.yaml").read_text(encoding="utf-8"))
    (image,) = told["images"]

    for command in ("docker build -f deploy/Dockerfile -t", "docker push"):
        assert re.findall(rf"\$ {command} registry\.example/governor:(\S+)", readme) == [image["newTag"]]
    assert f"newTag: {image['newTag']}}}]" in readme


def test_the_labels_and_namespaces_that_the_readme_names_are_those_of_the_policy() -> None:
    """Whoever does as it says gets through, and so does Prometheus."""
    readme = (KUBERNETES / "README.md").read_text(encoding="utf-8")
    (policy,) = _of_kind(built(KUBERNETES / "overlays/shared"), "NetworkPolicy")
    froms = [each for rule in policy["spec"]["ingress"] for each in rule["from"]]
    (prometheus,) = (each["namespaceSelector"]["matchLabels"] for each in froms if "podSelector" not in each)
    (programs,) = (each for each in froms if "podSelector" in each)
    ((namespace, yes),) = programs["namespaceSelector"]["matchLabels"].items()
    ((pod, _),) = programs["podSelector"]["matchLabels"].items()

    assert f"from the namespace called `{prometheus['kubernetes.io/metadata.name']}` alone" in readme
    assert f"kubectl label namespace shop {namespace}={yes} " in readme
    assert f'pods `{pod}: "true"`' in readme


def test_what_the_readme_takes_out_is_there() -> None:
    """Where it says, in the words of the file."""
    readme = (KUBERNETES / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`(- \S*monitoring)` out of \[`\S+`\]\((\S+)\)", readme)

    assert len(named) == 2
    for line, file in named:
        assert f"  {line}\n" in (KUBERNETES / file).read_text(encoding="utf-8")


def test_the_rules_are_those_of_the_folder_of_rules(program: Callable[[str], str], tmp_path: Path) -> None:
    """All of them, in the form of the operator; promtool takes what is in it."""
    assert MADE.read_text(encoding="utf-8") == made()
    rules = tmp_path / "rules.yaml"
    told = yaml.safe_load(MADE.read_text(encoding="utf-8"))
    rules.write_text(yaml.safe_dump(told["spec"]), encoding="utf-8")
    check = subprocess.run(
        [program("promtool"), "check", "rules", rules], capture_output=True, timeout=BOUND, check=False
    )

    assert check.returncode == 0, check.stdout
    groups = [
        group["name"] for path in RULES.glob("*.yaml") for group in yaml.safe_load(path.read_text("utf-8"))["groups"]
    ]
    assert sorted(groups) == sorted(group["name"] for group in told["spec"]["groups"])


def test_stale_rules_are_noticed() -> None:
    """By the command that makes them."""
    check = subprocess.run(
        [sys.executable, *shlex.split("-m deploy.kubernetes --check")],
        cwd=KUBERNETES.parents[1],
        timeout=BOUND,
        check=False,
    )

    assert check.returncode == 0
