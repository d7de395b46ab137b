"""A tour of governor in a few seconds: `make demo`.

It starts a daemon on demo.yaml, lets client processes compete (demo_client.py), kills one of them, and looks at
what becomes of its permit. Each claim is checked against what the clients saw, by their own clocks: the exit code
is 0 only if all of them hold.
"""

import signal
import sys
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from demo_stage import PATIENCE, DemoError, Event, Stage

# What demo.yaml says.
PERMITS: Final = 2
MEMBERS: Final = 2
RATE: Final = 5
BURST: Final = 3
LEASE_SECONDS: Final = 2.0

# What a machine that is busy with other things may add to a time; it proves nothing here.
SLACK_SECONDS: Final = 2.0


def semaphore(stage: Stage) -> None:
    """Four workers, two permits."""
    stage.title("A semaphore: four workers, two permits of thumbnails")
    workers = [f"worker-{number}" for number in (1, 2, 3, 4)]
    stage.enter("make_thumbnail", *workers)
    seen = list(stage.events())

    stage.claim("each of the four had one", holds=sorted(who(seen, "granted")) == workers)
    stage.claim("two at a time, never three", holds=most_at_once(seen) == PERMITS)


def pool(stage: Stage) -> None:
    """Three readers, two connections."""
    stage.title("A pool: three readers, two connections of orders-db")
    stage.enter("read_orders", "reader-1", "reader-2", "reader-3")
    seen = list(stage.events())
    by_member = {event.member: [each for each in seen if each.member == event.member] for event in seen if event.member}

    stage.claim("each was told which connection is its own", holds=len(by_member) == MEMBERS)
    stage.claim("nobody shared one", holds=all(most_at_once(events) == 1 for events in by_member.values()))


def rate_limit(stage: Stage) -> None:
    """Nine calls at five a second, three at once."""
    stage.title("A rate limit: three callers, five calls of payments-api a second")
    stage.enter("call_payments", "caller-1", "caller-2", "caller-3")
    seen = list(stage.events())
    calls = len(who(seen, "granted"))
    # From before the first ask until after the last grant: no call can have been outside.
    took = max(event.at for event in seen) - min(event.at for event in seen)
    least = (calls - BURST) / RATE

    stage.claim(f"{calls} calls took {took:.2f}s, and may not take less than {least:.2f}s", holds=took >= least)


def crash(stage: Stage) -> None:
    """The holder is killed, and the next in line gets its permit."""
    stage.title("A crash: one importer holds nightly-import, and the next one waits")
    stage.enter("import_for_ever", "importer-1")
    dead = stage.until("granted", "importer-1")
    stage.enter("import_once", "importer-2")
    stage.line_of("nightly-import", 1)
    stage.say("importer-2", "stands in line for nightly-import")
    stage.until("renews", "importer-1")
    stage.governor("status")
    before = stage.resources()["nightly-import"]
    stage.claim("one holds, one waits", holds=(before.in_use, before.waiters) == (1, 1))

    killed = stage.kill("importer-1")
    stage.say("demo", f"nobody renews lease {dead.lease} any more: what is left of its {LEASE_SECONDS:g}s runs out")
    heir = stage.until("granted", "importer-2")
    stage.governor("status")
    after = stage.resources()["nightly-import"]
    took = heir.at - killed
    stage.claim("the next one holds, nobody waits", holds=(after.in_use, after.waiters) == (1, 0))
    stage.claim(
        f"it was told so {took:.2f}s after the kill: the rest of the lease, and the way of the answer",
        holds=took <= LEASE_SECONDS + SLACK_SECONDS,
    )
    stage.claim("its lease has a higher id, so it can fence the dead one off", holds=heir.lease > dead.lease)

    answer = stage.governor("release", str(dead.lease))
    stage.claim("a late word from the dead changes nothing", holds=answer == 1)
    stage.cue("importer-2")
    for _ in stage.events():
        pass


def rest(stage: Stage) -> None:
    """Everything has come back, and can be read in the metrics."""
    stage.title("The end: everything has come back")
    stage.governor("status")
    lent = sum(resource.in_use for resource in stage.resources().values())
    ask = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy leads here
    with ask.open(f"http://{stage.http}/metrics", timeout=PATIENCE) as page:
        lines = page.read().decode().splitlines()
    ends = [line for line in lines if line.startswith("governor_lease_ends_total{") and not line.endswith(" 0")]
    print("         governor_lease_ends_total")
    print(*(f"           {line.removeprefix('governor_lease_ends_total')}" for line in ends), sep="\n")
    expired = [line for line in ends if 'reason="expired"' in line]

    stage.claim("nothing is lent", holds=lent == 0)
    stage.claim("one lease has expired: the one of the dead", holds=[line.split()[-1] for line in expired] == ["1"])


def who(events: Sequence[Event], what: str) -> list[str]:
    """Everybody who told this, as often as they did."""
    return [event.who for event in events if event.what == what]


def most_at_once(events: Sequence[Event]) -> int:
    """How many held a permit at the same time, at most."""
    steps = {"granted": 1, "releases": -1}
    held = most = 0
    for event in sorted(events, key=lambda event: event.at):
        held += steps.get(event.what, 0)
        most = max(most, held)
    return most


def interrupt(*_: object) -> None:
    """SIGTERM clears the stage as Ctrl-C does."""
    raise KeyboardInterrupt


def main() -> int:
    """The exit code."""
    signal.signal(signal.SIGTERM, interrupt)
    started = time.monotonic()
    try:
        with ExitStack() as ends:
            stage = Stage(ends)
            for scene in (semaphore, pool, rate_limit, crash, rest):
                scene(stage)
    except KeyboardInterrupt:
        return 130
    except (DemoError, TimeoutError) as error:
        print(f"\nthe demo failed: {error}", file=sys.stderr)
        return 1
    print(f"\nAll of it held, in {time.monotonic() - started:.0f}s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
