"""The cache and the children: hits, damage, killed writers, several processes, interruption."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gen.compile import Compiled, CompileError, compile_many, compile_source
from gen.compile.processes import Processes, Stopped
from gen.compile.store import KEEP_SECONDS, Store, content_key, default_cache
from tests.compile.conftest import SOURCES

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(axpy, tmp_path) -> Store:
    """A store with one entry, under the key "k"."""
    store = Store(tmp_path / "cache")
    with store.scratch() as scratch:
        store.save("k", axpy.kernels, scratch)
    return store


def test_a_second_compilation_is_a_hit(axpy, cache):
    again = compile_source(SOURCES / "axpy.py", cache=cache)
    assert again.from_cache and again.kernels == axpy.kernels and again.seconds < 1


def test_a_change_of_source_arch_or_flags_is_another_key():
    keys = [
        content_key([("source", b"a"), ("arch", b"x")]),
        content_key([("source", b"ax"), ("arch", b"")]),
        content_key([("source", b"a"), ("arch", b"y")]),
        content_key([("sourcea", b""), ("arch", b"x")]),
    ]
    assert len(set(keys)) == 4


def test_damaged_entries_are_misses(store, axpy):
    entry = store.folder / "k.json"
    whole = entry.read_bytes()
    assert store.load("k") == axpy.kernels
    for damaged in (
        b"",
        whole[: len(whole) // 2],
        whole[:-1],
        whole.replace(b"axpy_kernel", b"axpy_kernal", 1),
    ):
        entry.write_bytes(damaged)
        assert store.load("k") is None
    assert store.load("absent") is None


def test_entries_of_another_form_are_misses(store):
    body = json.dumps({"axpy": {"name": "axpy", "parameters": [], "cubin": ""}}).encode()
    store.folder.mkdir(parents=True, exist_ok=True)
    (store.folder / "k.json").write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    assert store.load("k") is None


def test_what_a_killed_process_left_is_ignored_then_swept(store):
    left, fresh = store.folder / "scratch" / "left", store.folder / "scratch" / "fresh"
    for folder in (left, fresh):
        folder.mkdir()
        (folder / "entry.json").write_bytes(b"half")
    old = time.time() - KEEP_SECONDS - 60
    os.utime(left, (old, old))
    assert store.load("k") is not None
    with store.scratch() as scratch:
        assert {path.name for path in scratch.parent.iterdir()} == {"fresh", scratch.name}


def test_default_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KGEN_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_cache() == tmp_path / ".cache" / "kgen"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache() == tmp_path / "xdg" / "kgen"
    monkeypatch.setenv("KGEN_CACHE", str(tmp_path / "chosen"))
    assert default_cache() == tmp_path / "chosen"


def test_two_processes_at_once_replace_a_truncated_entry(axpy, cache, tmp_path):
    (tmp_path / "cache").mkdir()
    for entry in cache.glob("*.json"):
        (tmp_path / "cache" / entry.name).write_bytes(entry.read_bytes()[:1000])
    program = (
        "import hashlib, sys; from pathlib import Path; from gen.compile import compile_source\n"
        "kernel = compile_source(Path(sys.argv[1]), cache=Path(sys.argv[2])).kernels['axpy']\n"
        "print(hashlib.sha256(kernel.ptx.encode() + kernel.cubin).hexdigest())"
    )
    command = [sys.executable, "-c", program, str(SOURCES / "axpy.py"), str(tmp_path / "cache")]
    both = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate(timeout=120)[0].strip() for process in both]
    kernel = axpy.kernels["axpy"]
    assert answers == [hashlib.sha256(kernel.ptx.encode() + kernel.cubin).hexdigest()] * 2
    assert compile_source(SOURCES / "axpy.py", cache=tmp_path / "cache").from_cache
    assert not list((tmp_path / "cache" / "scratch").iterdir())


def test_compile_many_reports_each_source(axpy, cache, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("KERNELS = (")
    done: dict[Path, Compiled | CompileError] = {}
    compile_many([SOURCES / "axpy.py", broken], jobs=2, cache=cache, on_done=done.__setitem__)
    assert isinstance(done[broken], CompileError)
    assert done[SOURCES / "axpy.py"].kernels == axpy.kernels


def test_an_exception_of_the_callback_stops_the_others(axpy, cache, tmp_path):
    slow = tmp_path / "slow.py"
    slow.write_text("import time\ntime.sleep(600)\n")

    def fail(source: Path, result: Compiled | CompileError) -> None:
        raise RuntimeError("callback")

    start = time.monotonic()
    with pytest.raises(RuntimeError, match="callback"):
        compile_many([slow, SOURCES / "axpy.py"], jobs=2, cache=cache, on_done=fail)
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    "function", ["compile_source(slow, cache=cache)", "compile_many([slow], cache=cache, on_done=print)"]
)
def test_interruption_kills_the_children_and_leaves_nothing(function, tmp_path):
    slow, cache, started = tmp_path / "slow.py", tmp_path / "cache", tmp_path / "started"
    slow.write_text(
        "import os, pathlib, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"pathlib.Path({str(started)!r}).write_text(f'{{os.getpid()}} {{child.pid}} ')\n"
        "time.sleep(600)\n"
    )
    program = (
        "import sys; from pathlib import Path; from gen.compile import compile_many, compile_source\n"
        f"slow, cache = map(Path, sys.argv[1:]); {function}"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(slow), str(cache)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: started.exists() and started.read_text().endswith(" "))
    parent.send_signal(signal.SIGINT)
    _, errors = parent.communicate(timeout=30)
    assert parent.returncode != 0 and "KeyboardInterrupt" in errors
    wait_for(lambda: not any(running(int(pid)) for pid in started.read_text().split()))
    assert [path.name for path in cache.iterdir()] == ["scratch"]
    assert not list((cache / "scratch").iterdir())


def test_processes_refuse_after_stop(tmp_path):
    processes = Processes()
    assert processes.run(
        ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], cwd=tmp_path, env={}, timeout=9
    ) == (
        3,
        "out\nerr\n",
    )
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run(["/bin/sh", "-c", "sleep 60"], cwd=tmp_path, env={"PATH": os.defpath}, timeout=0.2)
    processes.stop()
    with pytest.raises(Stopped):
        processes.run(["/bin/true"], cwd=tmp_path, env={}, timeout=9)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "nothing happened within 30 s"
        time.sleep(0.05)
