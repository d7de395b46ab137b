"""Log: whether the write-ahead log beside a state file is as SQLite left it.

It knows the format of that log, which SQLite documents (https://www.sqlite.org/fileformat2.html#walformat). It must
never know what is remembered, nor mend anything that was on record.

SQLite reads a log up to the first frame that is not right, and takes that for its end: so a byte that the disk has
changed is as good as a transaction that never was, and whoever was told of it is forgotten without a word. What a
process that was killed leaves behind looks otherwise. The log is written from its beginning on, each page once in a
transaction, and what a transaction left that came to nothing is cut off before the next is written. So behind the last
frame that is right there is nothing, or part of a frame; or what an earlier log left, if nothing was committed since
the present one was begun over it.
"""

import os
import sqlite3
import struct
from contextlib import closing
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
# By the magic number that it begins with: how the words that are summed up lie in the file.
_ORDERS: Final = {0x377F0682: "<", 0x377F0683: ">"}
_WORD: Final = 0xFFFFFFFF
# Each log that is begun over another counts one further; what is none of the last so many never was a log here.
_EARLIER: Final = 2**16


@dataclass(slots=True, frozen=True)
class Read:
    """A log: how many bytes there are up to its last commit, and in words what is wrong behind that, if it is."""

    committed: int
    problem: str = ""


def read(path: Path) -> Read:
    """Look at all of it, without SQLite. Raises OSError; that there is none is as good as that it is empty."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return Read(0)
    with file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return Read(0)
        magic, _, page, _, first_salt, second_salt, *sums = _HEADER.unpack(header)
        order = _ORDERS.get(magic)
        if order is None or _summed(order, header[:24], (0, 0)) != tuple(sums):
            return Read(0, f"its log {path.name} does not begin like one")
        return _Reader(file, path.name, order, page, (first_salt, second_salt)).read((sums[0], sums[1]))


def cut(path: Path, committed: int) -> None:
    """Cut off what a transaction left that came to nothing. Nobody may be writing. Raises OSError."""
    if committed and path.stat().st_size > committed:
        os.truncate(path, committed)


def may_be_cut_off(file: Path, boot: str) -> bool:
    """Whether the machine was started anew since: what was not flushed by then may be there in part.

    Read without the log, of which it is the question; a boot is in the file itself before its first lease is granted.
    """
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        row = connection.execute("SELECT boot FROM meta").fetchone()
    return row is not None and row[0] not in {"", boot}


class _Reader:
    """Reads the frames of one log, of which the header has been read."""

    def __init__(self, file: BufferedReader, name: str, order: str, page: int, salts: tuple[int, int]) -> None:
        self._file = file
        self._name = name
        self._order = order
        self._size = _FRAME.size + page
        self._salts = salts

    def read(self, sums: tuple[int, int]) -> Read:
        """From the first one on. ``sums`` are those of the header."""
        committed = number = 0
        while len(frame := self._file.read(self._size)) == self._size:
            number += 1
            _, pages, *rest = _FRAME.unpack_from(frame)
            salts = (rest[0], rest[1])
            if self._is_earlier(salts):
                break
            sums = _summed(self._order, frame[:8], sums)
            sums = _summed(self._order, frame[_FRAME.size :], sums)
            if salts != self._salts or sums != (rest[2], rest[3]):
                if not committed and self._earlier_follows():
                    break
                return Read(committed, f"in its log {self._name}, frame {number} is not what was written")
            if pages:
                committed = _HEADER.size + number * self._size
        return Read(committed)

    def _is_earlier(self, salts: tuple[int, int]) -> bool:
        """The first of the two counts the logs, the second is drawn for each."""
        return 0 < (self._salts[0] - salts[0]) & _WORD <= _EARLIER and salts[1] != self._salts[1]

    def _earlier_follows(self) -> bool:
        """Whether it is written over an earlier log: where it was just being written, anything may lie."""
        frame = self._file.read(self._size)
        return len(frame) == self._size and self._is_earlier(
            (_FRAME.unpack_from(frame)[2], _FRAME.unpack_from(frame)[3])
        )


def _summed(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    one, two = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for left, right in zip(words, words, strict=True):
        one = (one + left + two) & _WORD
        two = (two + right + one) & _WORD
    return one, two
