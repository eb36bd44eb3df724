"""cute_copy.py: TMA both ways and a ring of buffers, through CuTe DSL's pipelines."""

from __future__ import annotations

import numpy as np
import pytest

from gen.ptx import Fault, TensorMap, Undefined
from tests.ptx.outside.conftest import CompileCute, CuteKernel

SHAPE, BOX, BLOCKS, THREADS = (100, 72), (32, 16), 3, 160


def launch(kernel: CuteKernel) -> tuple[np.ndarray, np.ndarray]:
    """(x, what the kernel makes of it)."""
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    y = np.zeros_like(x)
    maps = [TensorMap(x, box=BOX), TensorMap(Undefined(y), box=BOX)]
    report = kernel.launch((BLOCKS,), THREADS, maps, written=[1])
    assert report.warnings == []
    return x, y


def test_tiles_come_and_go(cute_kernel: CompileCute) -> None:
    x, y = launch(cute_kernel("cute_copy.py"))
    assert (y == 2 * x + 1).all()


MISTAKES = {
    "half of the bytes expected": ("ROWS * COLUMNS * 4", "ROWS * COLUMNS * 2", "mbarrier misuse"),
    "no wait for a free buffer": ("loads.producer_acquire(state)", "pass", "pending copy"),
    "no wait for the data": ("loads.consumer_wait(state)", "pass", "pending copy"),
    "buffers never released": ("loads.consumer_release(state)", "pass", "mbarrier misuse"),
    "no proxy fence": (
        'cute.arch.fence_proxy("async.shared", space="cta")', "pass", "missing proxy fence"
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_reported(cute_kernel: CompileCute, mistake: str) -> None:
    old, new, kind = MISTAKES[mistake]
    with pytest.raises(Fault) as caught:
        launch(cute_kernel("cute_copy.py", (old, new)))
    assert caught.value.kind == kind
