"""Times the interpreter: sparse-MLA decode, a block-scaled GEMM in CUDA C++, examples as fuzzing draws them.

    python -m benchmarks.interpreter

The bars are 5 s for a launch of V4-Flash with 1 token, 64 heads and 128 + 512 keys, the same for a GEMM of
256×256×512, and 2 s for a typical example.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import hypothesis

from gen import device
from gen.check.case import Case
from gen.check.properties import Operation, check, launch
from gen.check.strategies import cases
from gen.pipeline import compile_prepared, prepare
from gen.ptx import Module, Report
from gen.run.interpreter import Interpreter
from tests.ptx.outside.block_scaled import Problem
from tests.ptx.outside.compilers import compile_to_ptx

SPEC = Path("specs/deepseek_v4_flash/decode_h64.yaml")
FULL_SIZES = {"tokens": 1, "main_page": 256, "main_width": 128, "extra_page": 64, "extra_width": 512}
GEMM_SIZES = 256, 256, 512
LAUNCH_BAR, EXAMPLE_BAR = 5.0, 2.0
REPEATS, EXAMPLES = 5, 50


def timed(name: str, run: Callable[[], list[Report]]) -> bool:
    """Prints the median time of a run and its speed; whether it misses the bar."""
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        reports = run()
        seconds.append(time.perf_counter() - begin)
    executed = sum(sum(report.thread_instructions.values()) for report in reports)
    median = statistics.median(seconds)
    rate = executed / median / 1e6
    print(f"{name}: {median:.2f} s (bar {LAUNCH_BAR:g} s), {rate:.0f} M thread-instructions/s")
    return median > LAUNCH_BAR


def block_scaled_gemm() -> Callable[[], list[Report]]:
    """A launch of tests/ptx/outside/block_scaled_gemm.cu: e4m3 by e2m1."""
    with tempfile.TemporaryDirectory() as folder:
        module = Module(compile_to_ptx("block_scaled_gemm.cu", Path(folder)))
    problem = Problem.random(*GEMM_SIZES)

    def run() -> list[Report]:
        result, report = problem.launch(module)
        assert (result == problem.expected()).all()
        return [report]

    return run


def main() -> int:
    """Print the figures; 1 where one misses its bar."""
    (item,) = prepare([SPEC])
    interpreter = Interpreter()
    compiled = compile_prepared(item, Path("build"))
    operation = Operation(item.spec, compiled, interpreter, device.load(device.DEFAULT))
    knobs = {name: kinds[0] for name, kinds in item.family.knobs(item.spec).items()} | {"seed": 1}
    inputs = item.family.make_inputs(item.spec, Case(FULL_SIZES, knobs))

    def decode() -> list[Report]:
        _, faults = launch(operation, inputs)
        assert not faults, faults
        return interpreter.reports

    missed = timed("full-size launch", decode)
    missed |= timed("block-scaled GEMM", block_scaled_gemm())

    times: list[float] = []

    @hypothesis.settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(cases(item.spec, item.family))
    def example(case: Case) -> None:
        begin = time.perf_counter()
        check(operation, case)
        times.append(time.perf_counter() - begin)

    example()
    typical = statistics.median(times)
    print(f"fuzz example: median {typical:.2f} s (bar {EXAMPLE_BAR:g} s), longest {max(times):.2f} s")
    return int(missed or typical > EXAMPLE_BAR)


if __name__ == "__main__":
    sys.exit(main())
