"""Checking cases on a card in a process of its own, so that a crash ends one case and not the run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from gen.check.case import Case
from gen.run import Executor, RunError

READY = "ready"
PACKAGE_ROOT = Path(__file__).resolve().parents[2]


class Card(Executor, Protocol):
    """An executor that knows its card, and whether a fault has made the process useless."""

    def describe(self) -> Any:
        """The card as a `gen.device.Device`."""

    def broken(self) -> bool:
        """Whether later launches of this process would fail whatever they do."""


class Worker:
    """A process that checks the cases of one pack on one card; it is started again after a crash."""

    def __init__(self, folder: Path, card: int = 0) -> None:
        self._command = [sys.executable, "-m", "gen.pack.worker", str(folder), str(card)]
        self._process: subprocess.Popen[str] | None = None

    def check(self, name: str, case: Case) -> dict[str, Any]:
        """{"failure": text or None, "distances": {output: {…}}} of a case of the spec `name`.

        Raises RunError where the process does not even start, which no other case would change.
        """
        process = self._process = self._process or self._started()
        assert process.stdin and process.stdout
        try:
            process.stdin.write(f"{name} {case.to_json()}\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            if answer.pop("broken"):
                self.stop()
            return answer
        code = process.wait()
        self._process = None
        text = f"{name}: the process that ran this case ended with status {code}; case {case.to_json()}"
        return {"failure": text, "distances": {}}

    def _started(self) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(self._command, cwd=PACKAGE_ROOT, stdin=pipe, stdout=pipe, text=True)
        assert process.stdout
        if process.stdout.readline().strip() != READY:
            raise RunError(
                f"the process that runs the cases ended with status {process.wait()} before the first"
            )
        return process

    def stop(self) -> None:
        """End the process; the next case starts another."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


def serve(folder: Path, card: Card, lines: Iterable[str]) -> Iterator[str]:
    """`ready`, then for each line `NAME CASE` one line of JSON."""
    from gen.check.properties import Operation, PropertyError, check
    from gen.pack.tree import decode_compiled, decode_spec

    device = card.describe()
    operations = {}
    for entry in json.loads((folder / "pack.json").read_text())["specs"]:
        spec, compiled = decode_spec(entry["spec"]), decode_compiled(entry["kernels"], folder)
        operations[spec.name] = Operation(spec, compiled, card, device)
    yield READY
    for line in lines:
        name, _, text = line.partition(" ")
        answer: dict[str, Any] = {"failure": None, "distances": {}}
        try:
            distances = check(operations[name], Case.from_json(text))
            answer["distances"] = {output: asdict(measured) for output, measured in distances.items()}
        except PropertyError as error:
            answer["failure"] = str(error)
        except Exception as error:  # whatever ends a case must not end the run
            answer["failure"] = f"{name}: {type(error).__name__}: {error}; case {text.strip()}"
        yield json.dumps({**answer, "broken": card.broken()})


def main() -> None:
    """Serve the pack and the card that the command line names."""
    from gen.run.cuda import Cuda

    for line in serve(Path(sys.argv[1]), Cuda(int(sys.argv[2])), sys.stdin):
        print(line, flush=True)


if __name__ == "__main__":
    main()
