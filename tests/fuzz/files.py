"""Random files for the reader of configs: bytes, configs with something wrong, and what makes a reader work too hard.

They know how a file can be bad. They must never know what is said of one.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from governor.config import Config
from governor.config.document import MAX_BYTES
from tests.config.test_fuzz import FULL, NASTY, PLACES, read, written
from tests.fuzz.words import mutated

# In seconds of processor time. What takes longest of what is right, a file as large as one may be, takes less than two.
_TOO_LONG: Final = 20.0
# Of what a reader may keep after all of them, in MiB: its caches fill within the first few hundred files.
_GROWTH: Final = 48.0
_PAGE: Final = 4096

_ENCODINGS: Final = ("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "utf-7")
_SPICE: Final = "ab:-?&*!|>%@`'\"{}[],#\t\n \\${}<~0\u2028\x85\ufeff\ud800é"


Bomb = Callable[[Random], str]


@dataclass
class Outcome:
    """What became of it. ``slowest``: seconds, and of which file; ``grown``: MiB."""

    problems: list[str] = field(default_factory=list)
    files: int = 0
    legal: int = 0
    slowest: tuple[float, str] = (0.0, "")
    grown: float = 0.0


def run(seed: int, files: int, kept: Path | None) -> Outcome:
    """So many; what was wrong with one is in ``kept``, under the seed and its number."""
    outcome = Outcome()
    warm = 0.0
    for number in range(files):
        name = f"{seed}/{number}"
        data = file(Random(name))
        began = time.process_time()
        try:
            outcome.legal += isinstance(read(data), Config)
        except Exception as error:  # noqa: BLE001  - whatever it is, it is a bug, and the next file may find another
            _keep(outcome, kept, name, data, f"{type(error).__name__}: {error}")
        took = time.process_time() - began
        outcome.slowest = max(outcome.slowest, (took, f"{name}, {len(data):,} bytes"))
        if took > _TOO_LONG:
            _keep(outcome, kept, name, data, f"took {took:.1f} s")
        outcome.files += 1
        if number == files // 5:
            warm = _resident()
    outcome.grown = _resident() - warm
    if outcome.grown > _GROWTH:
        outcome.problems.append(f"{seed}: the reader kept {outcome.grown:.0f} MiB")
    return outcome


def file(chance: Random) -> bytes:
    """One of them."""
    roll = chance.random()
    if roll < 0.1:
        return chance.randbytes(chance.choice((0, 1, 10, 1_000)))
    if roll < 0.3:
        text = "".join(chance.choice(_SPICE) for _ in range(chance.randrange(200)))
        return text.encode("utf-8", "surrogatepass")
    put = {chance.choice(PLACES): chance.choice(NASTY) for _ in range(chance.choice((0, 1, 1, 2, 5)))}
    whole = written(FULL, put)
    if roll < 0.6:
        return whole.encode()
    if roll < 0.85:
        return mutated(chance, whole.encode())
    if roll < 0.9:
        return whole.encode(chance.choice(_ENCODINGS), "ignore")
    return chance.choice(BOMBS)(chance).encode()


def _aliases(chance: Random) -> str:
    """A billion laughs: each anchor is ten of the one before."""
    depth = chance.choice((2, 5, 9, 30))
    lines = [f"a0: &a0 [{', '.join('x' * 10)}]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, depth)]
    return "\n".join(lines)


def _itself(_: Random) -> str:
    return "a: &a [*a, *a]\nb: &b {c: *b}\n"


def _deep(chance: Random) -> str:
    """Brackets within brackets, or one block within another."""
    depth = chance.choice((30, 40, 1_000, 20_000))
    opened = chance.choice(("[", "{a: ", "- ", "? "))
    return opened * depth


def _indented(chance: Random) -> str:
    return "\n".join(" " * level + "a:" for level in range(chance.choice((40, 900))))


def _huge(chance: Random) -> str:
    """One value of hundreds of kilobytes, of any kind."""
    size = chance.choice((10_000, 500_000))
    kind = chance.choice(("9" * size, "x" * size, '"' + "\\x41" * (size // 4) + '"', "'" + "''" * (size // 2) + "'"))
    return f"semaphores: {{a: {{permits: {kind}}}}}"


def _many(chance: Random) -> str:
    """Names, keys or mistakes by the ten thousand."""
    number = chance.choice((1_000, 30_000))
    entry = chance.choice(
        ("r{0}: {{permits: 1}}", "r{0}: {{permits: -1}}", "r{0}: x", '"{0}\\n": {{}}', "${{X{0}}}: 1")
    )
    return "semaphores:\n" + "".join(f"  {entry.format(each)}\n" for each in range(number))


def _variables(chance: Random) -> str:
    """Text that is all variables, or nearly."""
    return f"state: '{chance.choice(('${HOME}', '${', '$', '$${X}', '${A:-${B:-')) * 20_000}'"


def _too_large(chance: Random) -> str:
    return "#" * (MAX_BYTES + chance.choice((-1, 0, 1)))


BOMBS: Final[tuple[Bomb, ...]] = (_aliases, _itself, _deep, _indented, _huge, _many, _variables, _too_large)


def _keep(outcome: Outcome, kept: Path | None, name: str, data: bytes, why: str) -> None:
    outcome.problems.append(f"file {name}: {why}"[:500])
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        (kept / f"{name.replace('/', '-')}.yaml").write_bytes(data)


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / 2**20
