"""Figures: measured numbers beside their targets, for people and as JSON.

It knows how a number is judged and shown. It must never know how it was measured.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

_NAME: Final = 62
_VALUE: Final = 16
_TARGET: Final = 18


@dataclass(slots=True, frozen=True)
class Figure:
    """One number. Without ``at_most`` or ``at_least`` it is only told; ``note`` says what a reader may wonder.

    A ``value`` of None could not be measured, and ``note`` says why. It misses its target: nobody knows better.
    """

    name: str
    value: float | None
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """``ok``, ``MISS``, or nothing when there is no target."""
        if self.at_most is None and self.at_least is None:
            return ""
        if self.value is None:
            return "MISS"
        missed = (self.at_most is not None and self.value > self.at_most) or (
            self.at_least is not None and self.value < self.at_least
        )
        return "MISS" if missed else "ok"

    def __str__(self) -> str:
        target = ""
        if self.at_most is not None:
            target = f"at most {self.at_most:g}"
        elif self.at_least is not None:
            target = f"at least {self.at_least:g}"
        value = "not measured" if self.value is None else f"{_short(self.value)} {self.unit}"
        line = f"  {self.name:<{_NAME}}{value:>{_VALUE}}  {target:<{_TARGET}}{self.verdict:<6}{self.note}"
        return line.rstrip()


@dataclass(slots=True)
class Report:
    """All figures so far. ``details`` are for the JSON alone."""

    figures: list[Figure] = field(default_factory=list)
    details: dict[str, object] = field(default_factory=dict)

    def section(self, title: str) -> None:
        """Show that other figures begin."""
        print(f"\n{title}", flush=True)

    def add(self, figure: Figure) -> None:
        """Keep it, and show it at once."""
        self.figures.append(figure)
        print(figure, flush=True)

    @property
    def misses(self) -> int:
        """How many targets were missed."""
        return sum(figure.verdict == "MISS" for figure in self.figures)

    def write(self, path: Path, machine: Mapping[str, object]) -> None:
        """As JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        figures = [{**asdict(figure), "verdict": figure.verdict} for figure in self.figures]
        content = {"machine": machine, "figures": figures, "details": self.details}
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _short(value: float) -> str:
    """Three digits that matter, or a whole number."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{2 if abs(value) < 10 else 1}f}"
