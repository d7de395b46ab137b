"""The stories in ``transcripts/``: commands, dashes, and what the engine answers. They are a tutorial, too.

After a change of behaviour that is wanted: ``pytest tests/core --rewrite-transcripts``, then read the difference line
by line. Commit new answers only if you can say why each is right.
"""

from pathlib import Path

import pytest

from tests.core import transcript

STORIES = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_written(path: Path, request: pytest.FixtureRequest) -> None:
    """The engine answers every scene of the story as it stands in the file."""
    written = path.read_text(encoding="utf-8")
    played = transcript.play(transcript.read(written))

    if request.config.getoption("rewrite_transcripts"):
        path.write_text(transcript.write(played), encoding="utf-8")
    else:
        assert transcript.write(played) == written


def test_a_story_that_goes_otherwise_is_told() -> None:
    """A wrong answer in a file is a difference, wherever it stands."""
    story = "declare\n  semaphore db 1\n----\n      0s  added: db\n\nann acquires db\n----\nann waits\n"

    played = transcript.play(transcript.read(story))

    assert played[0].answers == ["      0s  added: db"]
    assert played[1].answers == ["      0s  ann has lease 1: db*1, until 30s"]


@pytest.mark.parametrize(
    ("text", "nanos"), [("0", 0), ("1ns", 1), ("1.5s", 1_500_000_000), ("2m", 120_000_000_000), ("250ms", 250_000_000)]
)
def test_durations_are_exact(text: str, nanos: int) -> None:
    """What a story says of time is read to the nanosecond, and told in the largest unit that fits."""
    assert transcript.duration(text) == nanos
    assert transcript.duration(transcript.clock(nanos)) == nanos
