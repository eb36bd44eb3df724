"""Checking specs on this machine's CUDA card: packed in a temporary folder, run by an isolated worker."""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gen.check.case import MEANINGFUL_VALUES, Case
from gen.check.session import SpecResult
from gen.compile import Compiled, CompileError
from gen.pack.worker import Worker
from gen.pack.write import drawn_cases, write_pack
from gen.pipeline import Prepared, build
from gen.run import RunError

NO_CARD = "use --on interpreter, or kgen pack for a machine that has one"
PROXY_ARCHS = {(12, 0): "sm_120a", (12, 1): "sm_121a", (9, 0): "sm_90a"}
"""Compute capabilities that kernels can be compiled for; sm_90a runs what needs no sm_120a instruction."""


def card_arch() -> str:
    """The architecture to compile for. Raises RunError where this machine has no card that kernels run on."""
    import torch

    if importlib.util.find_spec("cuda") is None:
        raise RunError(f"cuda-bindings is not installed; pip install 'sm120-kernelgen[gpu]', or {NO_CARD}")
    if not torch.cuda.is_available():
        raise RunError(f"torch finds no CUDA card here; {NO_CARD}")
    capability = torch.cuda.get_device_capability()
    if capability not in PROXY_ARCHS:
        known = ", ".join(f"{major}.{minor}" for major, minor in PROXY_ARCHS)
        raise RunError(f"the card has compute capability {capability}, not one of {known}; {NO_CARD}")
    return PROXY_ARCHS[capability]


def fuzz_on_cuda(
    prepared: Sequence[Prepared],
    arch: str,
    *,
    examples: int,
    seed: int,
    case: Case | None = None,
    on_progress: Callable[[int, int], None] = lambda count, total: None,
) -> dict[str, SpecResult]:
    """Like `gen.check.session.fuzz_specs` on the card of this machine: results by spec name."""
    chosen = {
        item.spec.name: [case]
        if case
        else [
            *item.family.must_test(item.spec).values(),
            *drawn_cases(item.spec, item.family, examples, seed),
        ]
        for item in prepared
    }
    results = {item.spec.name: SpecResult(not_run=item.missing_on(arch)) for item in prepared}
    prepared = [item for item in prepared if not results[item.spec.name].not_run]
    due, done = len(prepared) + sum(len(chosen[item.spec.name]) for item in prepared), 0
    built: list[tuple[Prepared, Compiled]] = []

    def compiled(item: Prepared, result: Compiled | CompileError) -> None:
        nonlocal done
        done += 1
        on_progress(done, due)
        if isinstance(result, CompileError):
            results[item.spec.name].failure = f"{item.spec.name}: {result}"
        else:
            built.append((item, result))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(prepared, folder / "sources", arch=arch, on_done=compiled)
        write_pack(built, folder, examples=0, seed=seed)
        worker = Worker(folder)
        try:
            for item, _ in built:
                begin, result = time.perf_counter(), results[item.spec.name]
                for one in chosen[item.spec.name]:
                    _check(worker, item.spec.name, one, result)
                    done += 1
                    on_progress(done, due)
                result.seconds = time.perf_counter() - begin
        finally:
            worker.stop()
    return results


def _check(worker: Worker, name: str, case: Case, result: SpecResult) -> None:
    """Check one case; the first failure is kept, and the run goes on."""
    answer = worker.check(name, case)
    if answer["failure"]:
        result.failure = result.failure or str(answer["failure"])
        return
    result.examples += 1
    if case.knobs.get("values", MEANINGFUL_VALUES) == MEANINGFUL_VALUES:
        for output, measured in answer["distances"].items():
            result.worst[output] = max(result.worst.get(output, 0.0), measured["rms"])
