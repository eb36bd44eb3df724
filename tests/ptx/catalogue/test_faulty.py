"""Each kernel of faulty.cu is reported at its marked line, and is clean once repaired."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from gen.ptx import Fault, Module, Undefined
from gen.ptx.errors import KINDS
from tests.ptx.catalogue.arrays import floats, ints, zeros
from tests.ptx.catalogue.conftest import FOLDER

Position = tuple[int, int, int]


@dataclass(frozen=True)
class Expected:
    """A launch and its fault: kind, thread, block, the allocation's name and how far outside it is."""

    entry: str
    kind: str
    arguments: Callable[[], Sequence[Any]]
    thread: int | None = 0
    block: int = 0
    allocation: str | None = None
    outside: int = 0
    grid: int = 1
    written: tuple[int, ...] | None = None
    message: str = ""
    fixed_warnings: int = 0


CASES = [
    Expected(
        "global_out_of_bounds",
        "out of bounds",
        lambda: [floats(100), floats(100), 100],
        36,
        1,
        "argument 0",
        4,
        grid=2,
    ),
    Expected("variable_out_of_bounds", "out of bounds", lambda: [zeros(64)], 48, 0, "variable table", 4),
    Expected("shared_out_of_bounds", "out of bounds", lambda: [zeros(64)], 63, 0, "shared memory", 4),
    Expected(
        "strided_view_gap",
        "out of bounds",
        lambda: [floats(128).reshape(8, 16)[:, :8], 16],
        8,
        0,
        "argument 0",
        message="gap between the rows",
    ),
    Expected("misaligned_vector", "misaligned", lambda: [floats(600), floats(64)], 0, 0, "argument 0"),
    Expected("writes_an_input", "read-only", lambda: [ints(64), zeros(64)], 0, 0, "argument 0", written=(1,)),
    Expected("unwritten_output", "uninitialized read", lambda: [Undefined(zeros(64)), 3], 0, 0, "argument 0"),
    Expected("unwritten_tile", "uninitialized read", lambda: [zeros(64), 40], 40, 0, "shared variable"),
    Expected("unwritten_array", "uninitialized read", lambda: [zeros(64), ints(16)], 0, 0, "local memory"),
    Expected(
        "no_barrier",
        "data race",
        lambda: [zeros(64)],
        0,
        0,
        "shared variable",
        message="warp 0 reads .* which warp 1 wrote",
    ),
    Expected(
        "reused_too_early",
        "data race",
        lambda: [zeros(64)],
        32,
        0,
        "shared variable",
        message="writes .* read with no barrier",
    ),
    Expected(
        "all_lanes_store",
        "data race",
        lambda: [zeros(1)],
        0,
        0,
        "argument 0",
        message="in the same instruction",
    ),
    Expected("in_place", "data race", lambda: [floats(64)], 0, 0, "argument 0", message="same block read"),
    Expected(
        "halo",
        "data race",
        lambda: [floats(128)],
        63,
        0,
        "argument 0",
        grid=2,
        message=r"block \(1, 0, 0\) wrote",
    ),
    Expected(
        "merge_without_fence",
        "data race",
        lambda: [floats(256), zeros(1), floats(64)],
        0,
        3,
        "argument 0",
        grid=4,
        message="nothing that orders the blocks",
    ),
    Expected(
        "merge_at_block_scope",
        "data race",
        lambda: [floats(256), zeros(1), floats(64)],
        0,
        0,
        "argument 1",
        grid=4,
        message=r"\.cta scope",
    ),
    Expected("flag_without_acquire", "data race", lambda: [zeros(128), zeros(1)], 0, 1, "argument 0", grid=2),
    Expected(
        "counter_read_plainly",
        "data race",
        lambda: [zeros(1), zeros(4)],
        0,
        0,
        "argument 0",
        grid=4,
        message="an atomic, volatile or relaxed access",
    ),
    Expected("copy_not_awaited", "pending copy", lambda: [ints(256), zeros(64)], 0, 0, "shared variable"),
    Expected("no_proxy_fence", "missing proxy fence", lambda: [zeros(64)], 0, 0, "shared variable"),
    Expected("divergent_barrier", "barrier divergence", lambda: [zeros(64)], 15),
    Expected("barrier_counts_differ", "barrier mismatch", lambda: [zeros(64)], 32, message="same count"),
    Expected(
        "barrier_never_full",
        "deadlock",
        lambda: [zeros(64)],
        0,
        message="warp 0 .* for barrier 1; warp 1 .* for barrier 1",
    ),
    Expected("half_a_warp_shuffles", "non-converged", lambda: [zeros(64)], 0),
    Expected(
        "mbarrier_lacks_an_arrival",
        "mbarrier misuse",
        lambda: [zeros(64)],
        0,
        0,
        "shared variable",
        message="lacking 1 of 65 arrivals",
    ),
    Expected(
        "mbarrier_bytes_overflow",
        "mbarrier misuse",
        lambda: [zeros(64)],
        0,
        0,
        message="transaction count overflows",
    ),
    Expected("mbarrier_not_initialized", "mbarrier misuse", lambda: [zeros(64)], 0, 0, "shared variable"),
    Expected("flag_nobody_sets", "no progress", lambda: [zeros(1)], None, message="warp 1 .* at line"),
    Expected("trapped", "trap", lambda: [ints(64), zeros(64)], 37),
]


def marked_line(entry: str) -> int:
    """The first line of an entry of faulty.cu that is marked FAULT."""
    lines = (FOLDER / "faulty.cu").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if f" {entry}(" in line)
    return next(i + 1 for i in range(start, len(lines)) if "// FAULT" in lines[i])


def launch(module: Module, case: Expected) -> list[str]:
    """Runs a case; its warnings."""
    kernel = module[case.entry]
    arguments = case.arguments()
    return kernel.launch((case.grid,), (64,), arguments, written=case.written, spin_limit=2000).warnings


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.entry)
def test_the_mistake_is_reported(faulty: Module, case: Expected) -> None:
    with pytest.raises(Fault) as caught:
        launch(faulty, case)
    fault = caught.value
    assert fault.kind == case.kind, fault
    assert fault.source is not None and fault.source.endswith(f"faulty.cu:{marked_line(case.entry)}"), fault
    if case.thread is not None:
        assert (fault.thread, fault.block) == ((case.thread, 0, 0), (case.block, 0, 0)), fault
    if case.allocation is None:
        assert fault.allocation is None
    else:
        assert fault.allocation is not None and fault.allocation.name.startswith(case.allocation), fault
        assert fault.allocation.outside == case.outside, fault
    assert re.search(case.message, str(fault)), fault


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.entry)
def test_the_repaired_kernel_is_clean(fixed: Module, case: Expected) -> None:
    assert launch(fixed, case) == []


def test_every_kernel_is_launched_and_every_kind_but_those_of_ptx_alone_occurs(faulty: Module) -> None:
    assert sorted(faulty.entries) == sorted(case.entry for case in CASES)
    assert set(KINDS) - {case.kind for case in CASES} == {"unsupported address", "tensor map"}
