"""`governor diff`: what a config would change, and for whom."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from governor.cli.exits import CommandError, Exit
from governor.cli.options import Settings, address_option, examples, output_option, with_settings
from governor.cli.output import complain, say, say_json, terminal_width
from governor.wording import count, folded, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from governor.v1.admin_pb2 import Difference, DiffResponse, SettingChange

# What its limit is called in the YAML: whoever reads "orders-db 10 -> 4" knows.
_LIMITS: Final = frozenset({"permits", "size", "capacity"})
# Of one message.
_PART: Final = 128 << 10


@click.command(
    epilog=examples(
        "governor diff governor.yaml",
        "helm template . | yq '.data.governor' | governor diff -",
        "governor diff governor.yaml -o json | jq '.differences[].resource'",
    )
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True, readable=False))
@address_option
@output_option
@with_settings
def diff(settings: Settings, *, file: Path) -> Exit:
    """Say what a config would change, and for whom.

    The daemon compares FILE with what it has in force, and with who holds and who waits at this moment; nothing is
    changed. It reads the file with its own environment. FILE may be - for stdin.

    Exits as diff(1) does: with 0 if nothing would change, with 1 if anything would. And with 78 if the file is
    wrong, or a reload of it would be refused.

    JSON: {"problems": [...], "differences": [...], "settings": [...], "at_next_start": [...]}. Each difference has
    resource, kind, what (added, changed or removed), changes, in_use, leases, waiters, over_limit, refused_waiters,
    most_asked, granted_waiters and problem. changes, settings (of the daemon itself) and at_next_start have name,
    before and after; one of these two is null where there is none.
    """
    from governor.cli.admin import reached
    from governor.v1.admin_pb2 import DiffRequest

    name, yaml = _read(file)
    with reached(settings.where()) as admin:
        # An empty file is a config, too.
        parts = [DiffRequest(yaml=yaml[at : at + _PART]) for at in range(0, max(1, len(yaml)), _PART)]
        parts[0].name = name
        answer = admin.send(lambda stub: stub.Diff, parts)
    bad = [*answer.problems, *(each.problem for each in answer.differences if each.problem)]
    if settings.json:
        say_json(
            {
                "problems": list(answer.problems),
                "differences": [_record(each) for each in answer.differences],
                "settings": [_change_record(each) for each in answer.settings],
                "at_next_start": [_change_record(each) for each in answer.at_next_start],
            }
        )
    else:
        if not answer.problems:
            width = terminal_width()
            say(part for line in lines(answer) for part in folded(line, width))
        for problem in answer.problems:
            complain(printable(problem))
    if bad:
        return Exit.BAD_CONFIG
    return Exit.DIFFERS if answer.differences or answer.settings or answer.at_next_start else Exit.OK


def lines(answer: "DiffResponse") -> "Iterator[str]":
    """A sentence for each difference."""
    if not (answer.differences or answer.settings or answer.at_next_start):
        yield "nothing would change"
    for each in answer.differences:
        yield printable(sentence(each))
    for change in answer.settings:
        yield printable(_change(change))
    for change in answer.at_next_start:
        yield printable(f"{_change(change)}: at the next start only")


def sentence(each: "Difference") -> str:
    """What becomes of one resource: ``orders-db 10 -> 4: 8 held, nothing is taken back``."""
    match each.what:
        case each.ADDED:
            settings = ", ".join(f"{change.name} {change.after}" for change in each.changes if change.after)
            head = f"{each.resource} is new: {each.kind}" + (f", {settings}" if settings else "")
        case each.REMOVED:
            head = f"{each.resource} ({each.kind}) is removed"
        case _:
            head = f"{each.resource} {_changes(each.changes)}"
    effects = list(_effects(each))
    return f"{head}: {'; '.join(effects)}" if effects else head


def _effects(each: "Difference") -> "Iterator[str]":
    if each.problem:
        yield f"the whole reload would be refused: {each.problem}"
        return
    if each.what == each.REMOVED and each.leases:
        yield f"{each.in_use} held, {'it goes' if each.leases == 1 else 'they go'} on until given back"
    elif each.over_limit:
        yield f"{each.in_use} held, nothing is taken back, {each.over_limit} must return before the next grant"
    elif each.in_use:
        yield f"{each.in_use} held, nothing is taken back"
    if each.refused_waiters == 1:
        ask = f": it asks for {each.most_asked}" if each.most_asked and each.what != each.REMOVED else ""
        yield f"1 waiter would be refused{ask}"
    elif each.refused_waiters:
        ask = f": they ask for up to {each.most_asked}" if each.most_asked and each.what != each.REMOVED else ""
        yield f"{each.refused_waiters} waiters would be refused{ask}"
    if each.granted_waiters:
        yield f"{count(each.granted_waiters, 'waiter')} would be granted at once"


def _changes(changes: "Iterable[SettingChange]") -> str:
    return ", ".join(_change(change) for change in changes)


def _change(change: "SettingChange") -> str:
    name = "" if change.name in _LIMITS else f"{change.name} "
    return f"{name}{change.before or 'none'} -> {change.after or 'none'}"


def _read(file: Path) -> tuple[str, bytes]:
    """What to call it, and all of it; raises CommandError."""
    from governor.config.document import MAX_BYTES

    if str(file) == "-":
        with open(0, "rb", closefd=False) as stdin:
            name, yaml = "<stdin>", stdin.read(MAX_BYTES + 1)
    else:
        try:
            with file.open("rb") as opened:
                name, yaml = str(file), opened.read(MAX_BYTES + 1)
        except OSError as error:
            raise CommandError(Exit.BAD_CONFIG, f"{printable(str(file))}: {error.strerror}", bare=True) from error
    if len(yaml) > MAX_BYTES:
        raise CommandError(Exit.BAD_CONFIG, f"{printable(name)}: longer than 1 MiB, which no config is", bare=True)
    return name, yaml


def _record(each: "Difference") -> dict[str, object]:
    return {
        "resource": each.resource,
        "kind": each.kind,
        "what": each.What.Name(each.what).lower(),
        "changes": [_change_record(change) for change in each.changes],
        "in_use": each.in_use,
        "leases": each.leases,
        "waiters": each.waiters,
        "over_limit": each.over_limit,
        "refused_waiters": each.refused_waiters,
        "most_asked": each.most_asked,
        "granted_waiters": each.granted_waiters,
        "problem": each.problem or None,
    }


def _change_record(change: "SettingChange") -> dict[str, object]:
    return {"name": change.name, "before": change.before or None, "after": change.after or None}
