"""Reads our Dockerfile, and what may come into an image: plainly, as far as ours go."""

import re
import shlex
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
ROOT: Final = DEPLOY.parent
DOCKERFILE: Final = DEPLOY / "Dockerfile"


def steps() -> list[tuple[str, str]]:
    """Each instruction and what it is told, in order."""
    text = re.sub(r"^ *#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line.strip() for line in re.sub(r"\\\n", " ", text).splitlines()]
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines if line]


def told(instruction: str) -> list[str]:
    """What each of these is told."""
    return [words for name, words in steps() if name == instruction]


def copied() -> dict[str, str]:
    """What is copied from the checkout, and where to."""
    found: dict[str, str] = {}
    for words in told("COPY"):
        *sources, target = shlex.split(words)
        if not sources[0].startswith("--from"):
            found |= dict.fromkeys(sources, target)
    return found


def ignored(path: str) -> bool:
    """Whether this file of the checkout is kept out of the build; the last line that fits decides."""
    verdict = False
    for line in (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = line.lstrip("!")
        parts = Path(path).parts
        beginnings = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
        fits = any(fnmatch(beginning, pattern.replace("**/", "*")) for beginning in beginnings)
        if fits:
            verdict = not line.startswith("!")
    return verdict
