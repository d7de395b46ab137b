"""Which messages a proxy stops on their way, and what becomes of them.

They know messages. They must never know a frame or a connection.
"""

import threading
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message

M = TypeVar("M", bound=Message)

# For whatever a test waits for; what is right takes far less.
BOUND: Final = 120.0
# How many messages of each direction are remembered.
MAX_PASSED: Final = 10_000

# Has a step done in the proxy's own thread.
Run = Callable[[Callable[[], None]], None]


class Fate(Enum):
    """What becomes of a message that a rule catches."""

    SWALLOW = auto()
    DELAY = auto()
    HOLD = auto()
    CUT = auto()


class Rule(Generic[M]):
    """Catches the next ``times`` messages for which ``when`` holds (None: all of them), until it is let go."""

    def __init__(self, run: Run, fate: Fate, when: Callable[[M], bool], times: int | None, seconds: float = 0) -> None:
        self.fate: Final = fate
        self.seconds: Final = seconds
        self.caught: list[M] = []
        # What to call for each message that is held.
        self.held: list[Callable[[], None]] = []
        self._run = run
        self._when = when
        self._left = times
        self._news = threading.Condition()

    def wait(self, times: int = 1) -> None:
        """Returns when so many messages have been caught. It blocks: ``await asyncio.to_thread(rule.wait)``."""
        with self._news:
            came = self._news.wait_for(lambda: len(self.caught) >= times, BOUND)
        assert came, f"of {times} messages, these came: {self.caught}"

    def let_go(self) -> None:
        """Catches no more, and whatever it holds goes on."""
        self._run(self._let_go)

    def _let_go(self) -> None:
        self._left = 0
        held, self.held = self.held, []
        for go_on in held:
            go_on()

    def catches(self, message: M) -> bool:
        """Whether it is this one's turn, which is counted."""
        if self._left == 0 or not self._when(message):
            return False
        if self._left is not None:
            self._left -= 1
        return True

    def note(self, message: M) -> None:
        """This one is caught."""
        with self._news:
            self.caught.append(message)
            self._news.notify_all()


class Way(Generic[M]):
    """One direction, and the rules for its messages, of which the oldest that applies decides.

    Whatever comes behind a message that is delayed or held, on the same connection, waits with it; only pings,
    settings and windows go by. ``passed``: what got through.
    """

    def __init__(self, run: Run, message: type[M]) -> None:
        self.passed: deque[M] = deque(maxlen=MAX_PASSED)
        self._run = run
        self._message = message
        self._rules: list[Rule[M]] = []

    def swallow(self, when: Callable[[M], bool], times: int | None = 1) -> Rule[M]:
        """As if they had never been sent."""
        return self._add(Rule(self._run, Fate.SWALLOW, when, times))

    def delay(self, seconds: float, when: Callable[[M], bool], times: int | None = 1) -> Rule[M]:
        """Each comes so much later."""
        return self._add(Rule(self._run, Fate.DELAY, when, times, seconds))

    def hold(self, when: Callable[[M], bool]) -> Rule[M]:
        """The next one comes when the rule is let go."""
        return self._add(Rule(self._run, Fate.HOLD, when, 1))

    def cut(self, when: Callable[[M], bool], times: int | None = 1) -> Rule[M]:
        """Each ends its connection, and does not come; those before it have."""
        return self._add(Rule(self._run, Fate.CUT, when, times))

    def read(self, data: bytes) -> M:
        """What a message says."""
        return self._message.FromString(data)

    def judge(self, message: M) -> Rule[M] | None:
        """The rule for this message, if there is one."""
        return next((rule for rule in self._rules if rule.catches(message)), None)

    def _add(self, rule: Rule[M]) -> Rule[M]:
        self._run(lambda: self._rules.append(rule))
        return rule
