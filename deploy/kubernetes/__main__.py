"""Writes the rules of deploy/monitoring as the Prometheus operator takes them.

python -m deploy.kubernetes [--check]
"""

import sys
from pathlib import Path
from typing import Final

import yaml

_HERE: Final = Path(__file__).parent
RULES: Final = _HERE.parent / "monitoring" / "rules"
MADE: Final = _HERE / "monitoring" / "prometheus-rule.yaml"

_HEAD: Final = "# Made from deploy/monitoring/rules by `make dashboards`; not edited by hand.\n"


def made() -> str:
    """The file as it should be."""
    groups = [
        group
        for path in sorted(RULES.glob("*.yaml"), reverse=True)
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    ]
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "governor", "labels": {"app.kubernetes.io/name": "governor"}},
        "spec": {"groups": groups},
    }
    return _HEAD + yaml.safe_dump(rule, sort_keys=False, width=1000, allow_unicode=True)


def main(arguments: list[str]) -> int:
    """The exit code: 1 if it is to be checked and is stale."""
    if "--check" not in arguments:
        MADE.write_text(made(), encoding="utf-8")
        return 0
    if MADE.read_text(encoding="utf-8") == made():
        return 0
    print(f"{MADE} is stale; run: make dashboards", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
