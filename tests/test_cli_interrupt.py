"""Ctrl-C ends a build and a fuzz with everything they started, and leaves whole files only."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WINDOW = ROOT / "specs/deepseek_v4_flash/decode_window_h64.yaml"
H8 = ROOT / "specs/deepseek_v4_flash/decode_h8.yaml"
MARK = "KGEN_TEST_MARK"
SECONDS = 60


class Started:
    """A `kgen` process in its own session; its descendants are known by a mark in their environment."""

    def __init__(self, folder: Path, cache: Path | None, *arguments: object) -> None:
        self.mark = f"{MARK}={uuid.uuid4().hex}"
        key, value = self.mark.split("=")
        env = {**os.environ, key: value, "PYTHONPATH": str(ROOT)}
        if cache is not None:
            env["KGEN_CACHE"] = str(cache)
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from gen.cli import main; main()", *map(str, arguments)],
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def alive(self) -> dict[int, str]:
        """The command lines of the running processes with this one's mark, itself included."""
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with suppress(OSError):
                    if self.mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                        found[int(folder.name)] = (
                            (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                        )
        return found

    def wait_for(self, word: str, count: int = 1) -> None:
        """Wait until `count` processes have the word in their command lines."""
        end = time.monotonic() + SECONDS
        while sum(word in line for line in self.alive().values()) < count:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end, self.alive()
            time.sleep(0.05)

    def interrupt(self, everyone: bool) -> tuple[int, str]:
        """Send SIGINT, to the process alone or as a terminal does to its group; its status and messages."""
        send = os.killpg if everyone else os.kill
        send(self.process.pid, signal.SIGINT)
        _, messages = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, messages

    def kill(self) -> None:
        for process in self.alive():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def start(tmp_path) -> Iterator:
    started: list[Started] = []

    def call(cache: Path | None, *arguments: object) -> Started:
        started.append(Started(tmp_path, cache, *arguments))
        return started[-1]

    yield call
    for one in started:
        one.kill()


def _assert_ended(run: Started, everyone: bool) -> None:
    status, messages = run.interrupt(everyone)
    assert status == 130
    assert "Traceback" not in messages
    last = [line for line in messages.splitlines() if line.strip()][-1]
    assert last == "error: interrupted; nothing is half-written, and the same command starts again"
    end = time.monotonic() + 5
    while run.alive() and time.monotonic() < end:  # multiprocessing's helper ends a moment after its parent
        time.sleep(0.05)
    assert run.alive() == {}


def _assert_whole(build: Path, names: set[str]) -> None:
    assert {path.name for path in build.iterdir()} == names
    for folder in build.iterdir():
        assert {path.name for path in folder.iterdir()} == {"kernel.py", "manifest.json"}
        assert json.loads((folder / "manifest.json").read_text())["name"] == folder.name


@pytest.mark.parametrize("everyone", [False, True], ids=["one_process", "terminal"])
@pytest.mark.parametrize("command", ["build", "fuzz"])
def test_ctrl_c_while_compilers_run(start, tmp_path, command, everyone):
    cache = tmp_path / "cache"
    run = start(cache, command, WINDOW, H8)
    run.wait_for("lower.py")
    time.sleep(0.3)
    _assert_ended(run, everyone)
    _assert_whole(tmp_path / "build", {"dsv4_flash_window_h64", "dsv4_flash_decode_h8"})
    left = [path for path in cache.rglob("*") if path.is_file()]
    assert left == [], "a compile that did not end is in the cache"


@pytest.mark.parametrize("everyone", [False, True], ids=["one_process", "terminal"])
def test_ctrl_c_while_specs_are_fuzzed(start, tmp_path, everyone):
    run = start(None, "fuzz", WINDOW, H8, "--examples", 100_000, "--jobs", 2)
    run.wait_for("spawn_main", count=2)
    workers = [process for process, line in run.alive().items() if "spawn_main" in line]
    for process in workers:  # as from a terminal; it is for their parent to end them
        os.kill(process, signal.SIGINT)
    time.sleep(0.3 if everyone else 2.5)  # still starting, or at work
    assert set(workers) < set(run.alive())
    _assert_ended(run, everyone)
    _assert_whole(tmp_path / "build", {"dsv4_flash_window_h64", "dsv4_flash_decode_h8"})
