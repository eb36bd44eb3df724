"""The fuzzer: the family's must-test cases, then cases that hypothesis draws."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import hypothesis
from hypothesis import HealthCheck, Phase

from gen.check.case import MEANINGFUL_VALUES, Case
from gen.check.metrics import Distance
from gen.check.properties import Operation, PropertyError, check
from gen.check.strategies import cases


@dataclass
class FuzzReport:
    """What a fuzz run saw: examples, seconds, greatest rms error of each output, the failure if any."""

    examples: int = 0
    seconds: float = 0.0
    worst: dict[str, float] = field(default_factory=dict)
    failure: PropertyError | None = None

    def add(self, distances: Mapping[str, Distance]) -> None:
        """Keep the greatest errors of an example that passed."""
        for name, measured in distances.items():
            self.worst[name] = max(self.worst.get(name, 0.0), measured.rms)


def fuzz(
    operation: Operation,
    *,
    examples: int,
    seed: int = 0,
    must_test: bool = True,
    shrink: bool = False,
    on_example: Callable[[], None] = lambda: None,
) -> FuzzReport:
    """Check the must-test cases and `examples` drawn ones; stops at the first failure.

    The same seed draws the same cases. `shrink` looks for a smaller failing case, which takes many more runs.
    """
    report, begin = FuzzReport(), time.perf_counter()

    def one(case: Case) -> None:
        distances = check(operation, case)
        report.examples += 1
        if case.knobs.get("values", MEANINGFUL_VALUES) == MEANINGFUL_VALUES:
            report.add(distances)
        on_example()

    try:
        if must_test:
            for case in operation.family.must_test(operation.spec).values():
                one(case)
        if examples:
            phases = [Phase.generate, *([Phase.shrink] if shrink else [])]
            settings = hypothesis.settings(
                max_examples=examples,
                deadline=None,
                database=None,
                phases=phases,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            )
            drawn = hypothesis.given(case=cases(operation.spec, operation.family))(one)
            hypothesis.seed(seed)(settings(drawn))()
    except PropertyError as failure:
        report.failure = failure
    report.seconds = time.perf_counter() - begin
    return report
