"""Files are written whole or not at all, and only where they differ."""

import os
from pathlib import Path

import pytest

from gen.render import write

OLD, NEW = {"kernel.py": "old = 1\n"}, {"kernel.py": "new = 2\n"}


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_writes_and_reports_what_changed(tmp_path):
    folder = tmp_path / "a" / "b"
    assert write({**OLD, "manifest.json": "{}"}, folder) == ["kernel.py", "manifest.json"]
    before = (folder / "manifest.json").stat()
    assert write({**NEW, "manifest.json": "{}"}, folder) == ["kernel.py"]
    assert (folder / "kernel.py").read_text() == NEW["kernel.py"]
    after = (folder / "manifest.json").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert write({**NEW, "manifest.json": "{}"}, folder) == []
    assert (folder / "kernel.py").stat().st_mode & 0o777 == 0o644
    assert _names(folder) == ["kernel.py", "manifest.json"]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("where", ["replace", "chmod"])
def test_an_end_in_the_middle_leaves_the_old_file_and_no_temporary(tmp_path, monkeypatch, where, error):
    write(OLD, tmp_path)

    def end(*_: object) -> None:
        assert len(_names(tmp_path)) == 2, "the new text is not in a temporary file"
        raise error

    monkeypatch.setattr(Path, where, end)
    with pytest.raises(type(error)):
        write(NEW, tmp_path)
    assert _names(tmp_path) == ["kernel.py"]
    assert (tmp_path / "kernel.py").read_text() == OLD["kernel.py"]


def test_a_failed_write_leaves_no_temporary(tmp_path, monkeypatch):
    opened = os.fdopen

    def failing(handle: int, mode: str):
        file = opened(handle, mode)
        file.write(b"half")
        file.flush()
        file.close()
        raise OSError("disk full")

    monkeypatch.setattr(os, "fdopen", failing)
    with pytest.raises(OSError, match="disk full"):
        write(NEW, tmp_path)
    assert _names(tmp_path) == []
