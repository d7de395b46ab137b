"""Harms: what is done to a scene, one round of it at a time, and from which chance how.

They know how to break things. They must never know what must hold nevertheless.

After each the daemon serves, and whoever was stopped goes on.
"""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.e2e.process import until
from tests.faults.scene import PROGRAMS, Scene

Harm = Callable[[Scene], None]


def kill(scene: Scene) -> None:
    """SIGKILL at any moment, also while it starts; and another daemon at once, or after a while."""
    scene.sleep(0, 0.4)
    scene.kill()
    while scene.chance.random() < 0.2:
        scene.start()
        scene.sleep(0, 0.3)
        scene.kill()
    if scene.chance.random() < 0.1:
        scene.sleep(0.1, 2.5)
    scene.start()
    scene.serves()


def stop(scene: Scene) -> None:
    """SIGTERM, and perhaps once more: a restart as an operator makes it."""
    scene.sleep(0.05, 0.6)
    scene.daemon.signal(signal.SIGTERM)
    if scene.chance.random() < 0.5:
        scene.sleep(0, 0.1)
        scene.daemon.signal(signal.SIGTERM)
    code = scene.daemon.exit_code()
    assert code == 0, f"stopped with {code}: {scene.daemon.log}"
    scene.start()
    scene.serves()


def freeze(scene: Scene) -> None:
    """SIGSTOP of the daemon, for less than a lease or for more than any."""
    scene.sleep(0.05, 0.6)
    scene.daemon.signal(signal.SIGSTOP)
    scene.sleep(0.05, scene.chance.choice((0.5, 3)))
    scene.daemon.signal(signal.SIGCONT)
    if scene.chance.random() < 0.3:
        scene.kill()
        scene.start()
        scene.serves()


def freeze_programs(scene: Scene) -> None:
    """SIGSTOP of one or more of those who borrow, for less than a lease or for more than any."""
    _freeze_programs(scene, lambda: None)


def strand(scene: Scene) -> None:
    """The same, and their connections break while they cannot know of it."""
    _freeze_programs(scene, scene.proxy.cut)


def _freeze_programs(scene: Scene, meanwhile: Callable[[], None]) -> None:
    scene.sleep(0.05, 0.6)
    programs = scene.chance.sample(scene.programs, scene.chance.randint(1, len(scene.programs)))
    for program in programs:
        program.send_signal(signal.SIGSTOP)
    scene.sleep(0.05, 1)
    meanwhile()
    scene.sleep(0.05, scene.chance.choice((0.5, 3)))
    for program in programs:
        program.send_signal(signal.SIGCONT)


def cut(scene: Scene) -> None:
    """Connections that break between two messages, or after some were lost; or nothing gets through for a while."""
    proxy, chance = scene.proxy, scene.chance
    scene.sleep(0.05, 0.6)
    way = chance.choice((proxy.up, proxy.down))
    match chance.choice(("now", "between", "lost", "hold", "delay", "nobody")):
        case "now":
            proxy.cut()
        case "between":
            rule = way.cut(lambda _: True, times=chance.randint(1, 4))
            scene.sleep(0.05, 0.5)
            rule.let_go()
        case "lost":
            # What TCP loses is the end of what was said: after it the connection breaks.
            rule = way.swallow(lambda _: True, times=None)
            scene.sleep(0.01, chance.choice((0.3, 2.5)))
            proxy.cut()
            rule.let_go()
        case "hold":
            proxy.hold()
            scene.sleep(0.05, chance.choice((0.5, 3)))
            if chance.random() < 0.5:
                proxy.cut()
            proxy.let_go()
        case "delay":
            rule = way.delay(chance.uniform(0.05, 1.5), lambda _: True, times=chance.randint(1, 4))
            scene.sleep(0.05, 0.5)
            rule.let_go()
        case "nobody":
            proxy.refuse_new()
            proxy.cut()
            scene.sleep(0.05, chance.choice((0.5, 3)))
            proxy.accept_new()


def fill(scene: Scene) -> None:
    """The disk of the state is full, for a while; then there is room, and the daemon may be killed."""
    scene.sleep(0.1, 0.6)
    ballast = scene.state / "ballast"

    def full() -> bool:
        # Once is not enough: to try again, the daemon folds its log into its file, which makes room.
        _pour(ballast)
        return not _writable(scene)

    refused = scene.told("state_unwritable")
    until(full, "the daemon notices that the disk is full")
    until(lambda: full() and any(refused(name) for name, _ in PROGRAMS), "a program is told that nothing is granted")
    scene.sleep(0.1, 1)
    ballast.unlink()
    until(lambda: _writable(scene), "it writes again")
    if scene.chance.random() < 0.5:
        scene.sleep(0, 0.2)
        kill(scene)


def _pour(ballast: Path) -> None:
    with ballast.open("ab", buffering=0) as file:
        size = 2**20
        while size:
            try:
                file.write(b"\0" * size)
            except OSError:
                size //= 2


def _writable(scene: Scene) -> bool:
    return scene.daemon.metric("governor_store_writable") == 1


def damage(scene: Scene) -> None:
    """A byte of the last page of the log is another one when the daemon starts: it refuses, and then it is mended."""
    scene.sleep(0, 0.4)
    scene.kill()
    wal = scene.state / "state.db-wal"
    whole = wal.read_bytes() if wal.exists() else b""
    if whole:
        frame = 24 + int.from_bytes(whole[8:12])  # the head of one, and a page, of which the log says the size
        place = scene.chance.randrange(max(0, len(whole) - frame), len(whole))
        _write(wal, place, whole[place] ^ 1 << scene.chance.randrange(8))
        scene.start()
        if scene.serves_or_ends():
            return  # nobody was told of that one: the daemon was killed while it wrote it
        code, log = scene.daemon.exit_code(), scene.daemon.log
        assert (code, "is damaged (in its log state.db-wal" in log) == (71, True), f"ended with {code}: {log}"
        _write(wal, place, whole[place])
    scene.start()
    scene.serves()


def _write(path: Path, place: int, byte: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes([byte]))


def anything(scene: Scene) -> None:
    """Whatever it is, one thing after the other."""
    scene.chance.choice((kill, kill, stop, freeze, freeze_programs, cut))(scene)


HARMS: Final[dict[str, Harm]] = {
    "kill": kill,
    "stop": stop,
    "freeze": freeze,
    "programs": freeze_programs,
    "strand": strand,
    "cut": cut,
    "fill": fill,
    "damage": damage,
    "anything": anything,
}
