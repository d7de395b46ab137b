"""`governor state`: what a daemon remembers, looked at and mended without one."""

import re
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from governor.cli.exits import CommandError, Exit
from governor.cli.options import Settings, examples, output_option, with_settings
from governor.cli.output import say, say_json
from governor.wording import count

# That it cannot be read is no mistake in how it was called: it is told as of any state with which no daemon starts.
_PLACE = click.argument("place", metavar="FILE-OR-DIR", type=click.Path(path_type=Path, readable=False))

_MAY_BE_SECRET: Final = frozenset({"attributes", "labels"})
_NOT_SHOWN: Final = "(not shown: --secrets does)"
# The id of a session, in the request id of what was asked for on it.
_OF_A_SESSION: Final = re.compile(r"^([0-9a-f]{8})[0-9a-f]{24}/")


@click.group(epilog=examples("governor state check /var/lib/governor"))
def state() -> None:
    """Look at what a daemon remembers, and mend it.

    That is its state file: which leases are held, and what is spent or quarantined.
    """


@state.command(epilog=examples("governor state check /var/lib/governor"))
@_PLACE
@output_option
@with_settings
def check(settings: Settings, *, place: Path) -> Exit:
    """Read all of a state file and say whether it is in order.

    It may be in use: nothing is changed. The exit code is 0, or 71 as of a daemon that would not start on it.

    JSON: {"ok", "leases", "resources", "problem"}; without a problem that is null.
    """
    from governor.store import StoreError
    from governor.store.salvage import examine

    try:
        path = _file(place)
        stored = examine(path)
    except StoreError as error:
        if settings.json:
            say_json({"ok": False, "leases": None, "resources": None, "problem": str(error)})
            return Exit.CANNOT_START
        raise CommandError(Exit.CANNOT_START, str(error)) from error
    leases, resources = len(stored.leases), len(stored.resources)
    if settings.json:
        say_json({"ok": True, "leases": leases, "resources": resources, "problem": None})
    else:
        say([f"{path}: OK, {count(leases, 'lease')}, {count(resources, 'resource')}"])
    return Exit.OK


@state.command(epilog=examples("governor state dump /var/lib/governor | jq '.leases[].client'"))
@_PLACE
@click.option(
    "--secrets", is_flag=True, help="Show what may be a secret, too: attributes of members, labels, sessions."
)
def dump(*, place: Path, secrets: bool) -> Exit:
    """Print a state file, which may be in use, as JSON.

    Instants are nanoseconds of the monotonic clock, of which `stamp` was the last seen; `written` is when that was.
    """
    from governor.store import StoreError
    from governor.store.salvage import read

    try:
        stored = read(_file(place))
    except StoreError as error:
        raise CommandError(Exit.CANNOT_START, str(error)) from error
    told: dict[str, object] = {
        "reserved": stored.reserved,
        "stamp": stored.stamp,
        "written": stored.written,
        "resources": [{"kind": each.spec.kind, **asdict(each)} for each in stored.resources],
        "leases": [{**asdict(row.held), "graced": row.graced} for row in stored.leases],
        "past": [asdict(each) for each in stored.past],
    }
    say_json(told if secrets else {name: _without_secrets(each) for name, each in told.items()})
    return Exit.OK


def _without_secrets(value: object, key: str = "") -> object:
    """The same, with the values of attributes and labels left out, and too little of a session's id to resume it."""
    match value:
        case dict() if key in _MAY_BE_SECRET:  # of a member that is declared no more, and still lent
            return dict.fromkeys(value, _NOT_SHOWN)
        case dict():
            return {name: _without_secrets(each, name) for name, each in value.items()}
        case tuple() if key in _MAY_BE_SECRET:
            return [[name, _NOT_SHOWN] for name, _ in value]
        case list() | tuple():
            return [_without_secrets(each) for each in value]
        case str() if key == "request_id":
            return _OF_A_SESSION.sub(r"\1…/", value)
        case _:
            return value


@state.command(epilog=examples("governor state repair /var/lib/governor"))
@_PLACE
def repair(*, place: Path) -> Exit:
    """Make a new state file of what can be read of a damaged one.

    The damaged one is kept beside it. No daemon may use it. A lease that is lost is forgotten: its holder works on
    while somebody else may be granted the same, until it renews and is told; so read what is lost before starting
    the daemon.
    """
    from governor.lock import BindError, FolderLock
    from governor.store import StoreError
    from governor.store.salvage import examine, replace, save

    try:
        path = _file(place)
        with FolderLock(path.parent) if path.parent.is_dir() else nullcontext():
            try:
                examine(path)
            except StoreError as error:
                if not error.damaged:
                    raise
            else:
                say([f"{path}: OK, nothing to repair"])
                return Exit.OK
            try:
                saved = save(path)
            except StoreError as error:
                raise StoreError(
                    f"{path}: nothing can be read of it: bring a copy back, or move it away and start with nothing "
                    "remembered"
                ) from error
            aside = replace(path, saved)
    except (BindError, StoreError) as error:
        raise CommandError(Exit.CANNOT_START, str(error)) from error
    leases, resources = len(saved.stored.leases), len(saved.stored.resources)
    say(
        [
            f"{path}: saved {count(leases, 'lease')}, {count(resources, 'resource')}; the damaged file is {aside.name}",
            *(f"{path}: lost {each}" for each in saved.lost),
        ]
    )
    return Exit.OK


def _file(place: Path) -> Path:
    """The file itself. Raises StoreError: nobody can tell, since a folder above it is closed to us."""
    from governor.store import NAME
    from governor.store.errors import store_error

    try:
        return place / NAME if place.is_dir() else place
    except PermissionError as error:
        raise store_error(place, "cannot be read", error) from error
