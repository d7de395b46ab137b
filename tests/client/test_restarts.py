"""A client whose daemon dies, stops and begins anew, again and again, with whatever Hypothesis thinks of in between."""

from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from governor.client.asks import SECOND
from tests.client.dumb import FOR_EVER
from tests.client.test_machine import LONG, Machine, lengths

# One life of a daemon: what comes of a client's attempt to reach it, how it ends, and for how long there is none.
STEP: Final = SECOND // 4
some_time = st.sampled_from((0, SECOND // 2, 3 * SECOND))
lives = st.fixed_dictionaries(
    {
        "reached": st.sampled_from(("connect", "deliver_up", "deliver_up", "converse", "converse")),
        "enter": st.sampled_from(("ash", "ash", "birch", "cedar", None)),
        "lease": lengths,
        "then": st.sampled_from((None, "cut", "cut", "cut late", "swallow", "stop")),
        "before": some_time,
        "broken": st.booleans(),
        "seen": st.sampled_from((0, 0, 0, SECOND, FOR_EVER)),
        "away": some_time,
        "after": some_time,
    }
)


@given(st.lists(lives, min_size=2, max_size=5))
@settings(max_examples=5000 if LONG else 600, print_blob=True)
def test_a_daemon_that_dies_again_and_again(lives: list[dict[str, Any]]) -> None:
    """Whatever its clients get to know of it, and when: what one says it holds is lent to nobody else."""
    machine = Machine()

    def wait(pause: int) -> None:
        for _ in range(pause // STEP):
            machine.wait(STEP)
            machine.what_is_held_is_lent_to_nobody_else()

    for life in lives:
        if machine.stream is None:
            machine.connect()
        if life["reached"] == "deliver_up" and machine.stream is not None and machine.stream.up:
            machine.deliver_up(1)
        if life["reached"] == "converse":
            machine.converse()
            if life["enter"] is not None:
                machine.enter(life["enter"], life["lease"])
        if life["then"] == "stop":
            machine.stop(life["broken"], 1 + life["before"])
        else:
            if machine.stream is not None and life["then"] is not None:
                if life["then"] == "swallow":
                    machine.swallow()
                else:
                    machine.cut(SECOND if life["then"] == "cut late" else 0)
            wait(life["before"])
            machine.die(life["broken"], life["seen"])
        wait(life["away"])
        machine.rise()
        wait(life["after"])
    for _ in range(4):
        wait(5 * SECOND)
    machine.every_ask_is_answered_once()
    machine.teardown()
