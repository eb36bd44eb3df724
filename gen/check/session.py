"""Fuzzing several specs at once, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from gen.check.case import Case
from gen.compile import Compiled, CompileError
from gen.device import Device
from gen.pipeline import Prepared
from gen.pipeline import build as build_all
from gen.spec import KernelSpec


@dataclass
class SpecResult:
    """How the fuzz of one spec went; `failure` is the paragraph of the first failing case.

    `not_run` says why nothing ran, where the executor lacks what the kernels need.
    """

    examples: int = 0
    seconds: float = 0.0
    worst: dict[str, float] = field(default_factory=dict)
    failure: str | None = None
    not_run: str | None = None


@dataclass(frozen=True)
class _Task:
    spec: KernelSpec
    compiled: Compiled
    device: Device
    examples: int
    seed: int
    case: Case | None
    shrink: bool


@dataclass(frozen=True)
class _Shared:
    """What a worker gets when it starts. Tasks are megabytes: sent through the pool's queue instead, they
    would block its feeder, and with it the end of this process, when a worker dies before reading them."""

    tasks: Sequence[_Task]
    ticks: SimpleQueue[int]


_shared: _Shared | None = None


def _start(shared: _Shared) -> None:
    global _shared
    _shared = shared
    import torch

    torch.set_num_threads(1)


def _fuzz(index: int) -> SpecResult:
    from gen.check.fuzz import fuzz
    from gen.check.properties import Operation, PropertyError, check
    from gen.run.interpreter import Interpreter

    assert _shared
    task, ticks = _shared.tasks[index], _shared.ticks
    begin = time.perf_counter()
    operation = Operation(task.spec, task.compiled, Interpreter(), task.device)
    if task.case is not None:
        try:
            check(operation, task.case)
        except PropertyError as error:
            return SpecResult(1, time.perf_counter() - begin, failure=str(error))
        return SpecResult(1, time.perf_counter() - begin)
    report = fuzz(
        operation,
        examples=task.examples,
        seed=task.seed,
        shrink=task.shrink,
        on_example=lambda: ticks.put(1),
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
    case: Case | None = None,
    shrink: bool = False,
    jobs: int | None = None,
    on_progress: Callable[[int, int], None] = lambda count, total: None,
) -> dict[str, SpecResult]:
    """Compile specs, then fuzz them `jobs` at a time, or check one `case` on each; results by spec name.

    `on_progress` gets the steps done and due: a compilation a spec, and its cases. An interruption ends
    compilers and workers before it is raised again.
    """
    due = sum(2 if case else 1 + examples + len(item.family.must_test(item.spec)) for item in prepared)
    done = 0
    results = {item.spec.name: SpecResult() for item in prepared}
    tasks: list[_Task] = []

    def compiled(item: Prepared, result: Compiled | CompileError) -> None:
        nonlocal done
        done += 1
        on_progress(done, due)
        if isinstance(result, CompileError):
            results[item.spec.name].failure = f"{item.spec.name}: {result}"
        else:
            tasks.append(_Task(item.spec, result, device, examples, seed, case, shrink))

    build_all(prepared, build, on_done=compiled)
    context = multiprocessing.get_context("spawn")
    queue: SimpleQueue[int] = context.SimpleQueue()
    workers = min(jobs or multiprocessing.cpu_count(), max(len(tasks), 1))
    with ProcessPoolExecutor(workers, context, _start, (_Shared(tasks, queue),)) as pool:
        try:
            futures = _submitted(pool, [task.spec.name for task in tasks])
            while not all(future.done() for future in futures.values()):
                while not queue.empty():
                    done += queue.get()
                on_progress(done, due)
                time.sleep(0.1)
            return results | {name: future.result() for name, future in futures.items()}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _submitted(pool: ProcessPoolExecutor, names: Sequence[str]) -> dict[str, Future[SpecResult]]:
    """Start the workers with Ctrl-C blocked, which they inherit: it is for this process to end them.

    Here it waits until they are all known. The mask alone would not do: another thread may get the signal.
    """
    interrupted: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: interrupted.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return {name: pool.submit(_fuzz, index) for index, name in enumerate(names)}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
        if interrupted:
            raise KeyboardInterrupt
