"""Times the interpreter on sparse-MLA decode: a full-size launch, and examples as the fuzzer draws them.

    python benchmarks/interpreter.py

The bars are 10 s for V4-Flash with 1 token, 64 heads and 128 + 512 keys, and 2 s for a typical example.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import hypothesis

from gen import device
from gen.check.case import Case
from gen.check.properties import Operation, check, launch
from gen.check.strategies import cases
from gen.pipeline import compile_prepared, prepare
from gen.run.interpreter import Interpreter

SPEC = Path("specs/deepseek_v4_flash/decode_h64.yaml")
FULL_SIZES = {"tokens": 1, "main_page": 256, "main_width": 128, "extra_page": 64, "extra_width": 512}
FULL_BAR, EXAMPLE_BAR = 10.0, 2.0
REPEATS, EXAMPLES = 5, 50


def main() -> int:
    """Print both figures; 1 where one misses its bar."""
    (item,) = prepare([SPEC])
    interpreter = Interpreter()
    compiled = compile_prepared(item, Path("build"))
    operation = Operation(item.spec, compiled, interpreter, device.load(device.DEFAULT))
    knobs = {name: kinds[0] for name, kinds in item.family.knobs(item.spec).items()} | {"seed": 1}
    inputs = item.family.make_inputs(item.spec, Case(FULL_SIZES, knobs))

    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        _, faults = launch(operation, inputs)
        seconds.append(time.perf_counter() - begin)
        assert not faults, faults
    executed = sum(sum(report.thread_instructions.values()) for report in interpreter.reports)
    full = statistics.median(seconds)
    rate = executed / full / 1e6
    print(f"full-size launch: {full:.2f} s (bar {FULL_BAR:g} s), {rate:.0f} M thread-instructions/s")

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
    return int(full > FULL_BAR or typical > EXAMPLE_BAR)


if __name__ == "__main__":
    sys.exit(main())
