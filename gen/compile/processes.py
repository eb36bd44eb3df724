"""Child processes that can be stopped together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path


class Stopped(Exception):  # noqa: N818 (a request, not an error)
    """Raised in a worker whose process group was stopped."""


class Processes:
    """Runs commands from any thread; `stop` kills what runs, grandchildren included, and refuses more."""

    def __init__(self) -> None:
        """Start with no process running."""
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(
        self, command: Sequence[str | Path], *, cwd: Path, env: dict[str, str], timeout: float
    ) -> tuple[int, str]:
        """Run to the end and return (exit status, stdout and stderr together).

        Raises Stopped after `stop`, and TimeoutExpired after `timeout` seconds, with everything killed.
        """
        with self._lock:
            if self._stopped:
                raise Stopped
            process = subprocess.Popen(
                [str(part) for part in command],
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._running.add(process)
        try:
            output, _ = process.communicate(timeout=timeout)
        except BaseException:
            _kill(process)
            process.wait()
            raise
        finally:
            with self._lock:
                self._running.discard(process)
                stopped = self._stopped
        if stopped:
            raise Stopped
        return process.returncode, output

    def stop(self) -> None:
        """Kill every running command and let no other start."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    # The child leads its own session, so that this reaches what nvcc started.
    with contextlib.suppress(ProcessLookupError):  # it may end by itself in between
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
