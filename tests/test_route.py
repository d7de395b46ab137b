"""Which stages lead to a file, however its path is made."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from governor.route import stages


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """With this as the current folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def test_the_stages_of_a_plain_path(tmp_path: Path) -> None:
    """Its entry, the folders above, and the file."""
    path = tmp_path / "a" / "b" / "file"
    path.parent.mkdir(parents=True)
    path.touch()
    found = stages(path)

    assert found.entries == {str(path.parent): {b"file"}}
    assert found.file == str(path)
    assert {str(tmp_path), str(tmp_path / "a"), str(path.parent)} <= found.on_the_way
    with inside(tmp_path / "a"):
        assert stages(Path("b/../../a/b/file")) == found


def test_the_stages_through_links(tmp_path: Path) -> None:
    """Each link is an entry of the folder that it is in, relative or not, and what it leads to is followed."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").touch()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link").symlink_to("../there//./file")
    (tmp_path / "there").symlink_to(tmp_path / "real")
    found = stages(tmp_path / "here" / "link")

    assert found.file == str(tmp_path / "real" / "file")
    assert found.entries == {
        str(tmp_path / "here"): {b"link"},
        str(tmp_path): {b"there"},
        str(tmp_path / "real"): {b"file"},
    }


def test_the_stages_end_where_there_is_nothing(tmp_path: Path) -> None:
    """What is missing is the entry to wait for; a link that leads in circles leads nowhere."""
    assert stages(tmp_path / "a" / "b" / "file").entries == {str(tmp_path): {b"a"}}
    (tmp_path / "dangling").symlink_to("nowhere")
    assert stages(tmp_path / "dangling").entries == {str(tmp_path): {b"dangling", b"nowhere"}}
    (tmp_path / "circle").symlink_to("circle")
    found = stages(tmp_path / "circle")
    assert (found.entries, found.file) == ({str(tmp_path): {b"circle"}}, None)
