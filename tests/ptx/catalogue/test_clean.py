"""No kernel of clean.cu is reported or warned of, and each finds its own results right.

Blocks run in one batch and, where they need not wait for later ones, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gen.ptx import Module, Undefined
from tests.ptx.catalogue.arrays import aligned, ints, zeros

GRID = 4
IN_TURN = 1  # a budget that runs one block after the other
TOGETHER = 256_000_000


def scratch(n: int) -> Undefined:
    return Undefined(aligned(np.full(n, -1, np.int32)))


# Entry: threads a block, arguments before the results, number of results, whether blocks wait for later ones.
KERNELS: dict[str, tuple[int, Callable[[], Sequence[Any]], int, bool]] = {
    "mbarrier_pipeline": (128, list, 64, False),
    "bulk_copy_pipeline": (64, lambda: [ints(384)], 64, False),
    "last_block_merge": (64, lambda: [scratch(256), zeros(1)], 64, False),
    "last_block_merge_acq_rel": (64, lambda: [scratch(256), zeros(1)], 64, False),
    "warp_synchronous": (128, list, 128, False),
    "named_barriers": (128, list, 64, False),
    "double_buffered_copies": (64, lambda: [ints(384)], 64, False),
    "chain_of_flags": (64, lambda: [scratch(256), zeros(4)], 256, False),
    "chain_of_flags_acquire_release": (64, lambda: [scratch(256), zeros(4)], 256, False),
    "grid_barrier": (64, lambda: [scratch(256), zeros(1)], 256, True),
    "spin_lock": (32, lambda: [zeros(1), zeros(1)], 4, False),
    "histogram": (64, lambda: [ints(256), zeros(16)], 256, False),
    "reuse_by_one_warp": (128, list, 128, False),
    "shuffles_only": (128, list, 128, False),
    "flag_within_a_block": (64, lambda: [scratch(128), zeros(4)], 128, False),
    "cooperative": (128, list, 128, False),
    "local_array": (64, lambda: [ints(16)], 64, False),
}
ONE_BLOCK = {
    "mbarrier_pipeline", "bulk_copy_pipeline", "warp_synchronous", "named_barriers", "double_buffered_copies",
    "reuse_by_one_warp", "shuffles_only", "cooperative", "local_array",
}  # fmt: skip


@pytest.mark.parametrize("budget", [TOGETHER, IN_TURN], ids=["together", "in turn"])
@pytest.mark.parametrize("entry", KERNELS)
def test_legal_idioms_are_not_reported(clean: Module, entry: str, budget: int) -> None:
    threads, arguments, results, needs_all = KERNELS[entry]
    y = np.zeros(results, np.int32)
    grid = 1 if entry in ONE_BLOCK else GRID
    budget = TOGETHER if needs_all else budget
    report = clean[entry].launch((grid,), (threads,), [*arguments(), y], budget=budget, spin_limit=20_000)
    assert report.warnings == []
    assert (y == 1).all()


def test_every_kernel_is_launched(clean: Module) -> None:
    assert sorted(clean.entries) == sorted(KERNELS)
