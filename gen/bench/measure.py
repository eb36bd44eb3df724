"""Measuring one compiled spec: a row for each of its family's bench sizes."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch

from gen import families
from gen.bench.timing import graph_microseconds
from gen.check.case import Inputs, Tensors
from gen.compile.result import Compiled
from gen.device import Device
from gen.plan import Scratch
from gen.run import Executor, run

if TYPE_CHECKING:
    from gen.spec import KernelSpec

ROTATED_BYTES = 1 << 28
"""Inputs that a graph rotates through: several times the L2 cache of any card in `gen/devices/`."""


class Bench(Protocol):
    """The module `bench` of a family."""

    def bench_sizes(self, spec: KernelSpec) -> list[dict[str, int]]:
        """Run-time sizes to measure."""

    def bench_inputs(self, spec: KernelSpec, sizes: Mapping[str, int], count: int) -> list[Inputs]:
        """Random inputs on the card, `count` times."""

    def bench_bytes(self, spec: KernelSpec, sizes: Mapping[str, int]) -> int:
        """Bytes that a launch must move: each input read once, each output written once."""

    def baseline(self, spec: KernelSpec, inputs: Inputs, outputs: Tensors) -> Callable[[], object]:
        """A call of the baseline kernel on the same inputs."""


@dataclass(frozen=True)
class Row:
    """One measurement: median microseconds of a launch, and what they are held against.

    `floor_us` is what its bytes take at the card's copy rate, `share_of_copy` its share of `us`,
    `ratio` the baseline's time over ours. Errors are relative, root mean square, against the reference.
    """

    name: str
    sizes: str
    us: float
    floor_us: float
    share_of_copy: float
    baseline_us: float
    ratio: float
    error: float
    baseline_error: float


def bench_module(spec: KernelSpec) -> Bench | None:
    """The bench of the spec's family; None where it has none."""
    name = f"{families.__name__}.{spec.family}.bench"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def measure(
    spec: KernelSpec, compiled: Compiled, executor: Executor, card: Device, copy_rate: float
) -> Iterator[Row]:
    """A row for each bench size of a spec on a card; nothing where its family has no bench."""
    bench, family = bench_module(spec), families.module(spec.family)
    for sizes in bench.bench_sizes(spec) if bench else []:
        assert bench
        moved = bench.bench_bytes(spec, sizes)
        sets = bench.bench_inputs(spec, sizes, min(64, 1 + ROTATED_BYTES // moved))
        plan = family.launch_plan(spec, sizes, card)
        ours, theirs = _buffers(family.outputs(spec, sets[0])), _buffers(family.outputs(spec, sets[0]))
        scratch = _buffers(plan.scratch)

        def call(inputs: Inputs, plan: Any = plan, ours: Tensors = ours, scratch: Tensors = scratch) -> None:
            run(executor, compiled, plan, family.arguments(spec, inputs), ours, scratch)

        call(sets[0])
        bench.baseline(spec, sets[0], theirs)()
        want = family.reference(spec, sets[0])
        errors = [_error(outputs, want) for outputs in (ours, theirs)]
        us = graph_microseconds([partial(call, inputs) for inputs in sets])
        other = graph_microseconds([bench.baseline(spec, inputs, theirs) for inputs in sets])
        floor = moved / copy_rate * 1e6
        text = " ".join(f"{name}={size}" for name, size in sizes.items())
        yield Row(spec.name, text, us, floor, floor / us, other, other / us, *errors)


def _buffers(shapes: Mapping[str, Scratch]) -> Tensors:
    return {
        name: (torch.zeros if b.zeroed else torch.empty)(
            b.shape, dtype=getattr(torch, b.dtype), device="cuda"
        )
        for name, b in shapes.items()
    }


def _error(outputs: Tensors, want: Tensors) -> float:
    """Relative rms error of the first output."""
    name, got = next(iter(outputs.items()))
    expected = want[name].double().to(got.device)
    return float((got.double() - expected).norm() / expected.norm())
