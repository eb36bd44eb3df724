"""Fuzzing several specs at once, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from gen.device import Device
from gen.pipeline import Prepared, prepare


@dataclass
class SpecResult:
    """How the fuzz of one spec went; `failure` is the paragraph of the first failing case."""

    examples: int = 0
    seconds: float = 0.0
    worst: dict[str, float] = field(default_factory=dict)
    failure: str | None = None


@dataclass(frozen=True)
class _Task:
    path: Path
    build: Path
    device: Device
    examples: int
    seed: int
    case: str | None
    shrink: bool


_ticks: SimpleQueue[int] | None = None


def _start(queue: SimpleQueue[int]) -> None:
    global _ticks
    _ticks = queue
    import torch

    torch.set_num_threads(1)


def _fuzz(task: _Task) -> SpecResult:
    from gen.check.case import Case
    from gen.check.fuzz import fuzz
    from gen.check.properties import Operation, PropertyError, check
    from gen.compile import CompileError
    from gen.pipeline import compile_prepared
    from gen.run import Interpreter

    begin = time.perf_counter()
    (item,) = prepare([task.path])
    try:
        compiled = compile_prepared(item, task.build)
    except CompileError as error:
        return SpecResult(failure=str(error))
    operation = Operation(item.spec, compiled, Interpreter(), task.device)
    if task.case is not None:
        try:
            check(operation, Case.from_json(task.case))
        except PropertyError as error:
            return SpecResult(1, time.perf_counter() - begin, failure=str(error))
        return SpecResult(1, time.perf_counter() - begin)
    queue = _ticks
    report = fuzz(
        operation,
        examples=task.examples,
        seed=task.seed,
        shrink=task.shrink,
        on_example=lambda: queue.put(1) if queue else None,
    )
    failure = str(report.failure) if report.failure else None
    return SpecResult(report.examples, report.seconds, report.worst, failure)


def fuzz_specs(
    prepared: Sequence[Prepared],
    build: Path,
    device: Device,
    *,
    examples: int,
    seed: int,
    case: str | None = None,
    shrink: bool = False,
    jobs: int | None = None,
    on_progress: Callable[[int, int], None] = lambda count, total: None,
) -> dict[str, SpecResult]:
    """Fuzz specs, `jobs` at a time, and call `on_progress` with cases done and due; results by spec name."""
    context = multiprocessing.get_context("spawn")
    queue: SimpleQueue[int] = context.SimpleQueue()
    due = sum(1 if case else examples + len(item.family.must_test(item.spec)) for item in prepared)
    done = 0
    workers = min(jobs or multiprocessing.cpu_count(), max(len(prepared), 1))
    with ProcessPoolExecutor(workers, context, _start, (queue,)) as pool:
        tasks = [_Task(item.spec.path, build, device, examples, seed, case, shrink) for item in prepared]
        futures = [pool.submit(_fuzz, task) for task in tasks]
        try:
            while not all(future.done() for future in futures):
                while not queue.empty():
                    done += queue.get()
                on_progress(done, due)
                time.sleep(0.1)
            return {item.spec.name: future.result() for item, future in zip(prepared, futures, strict=True)}
        except BaseException:
            for future in futures:
                future.cancel()
            for process in multiprocessing.active_children():
                process.terminate()
            raise
