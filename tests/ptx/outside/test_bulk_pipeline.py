"""bulk_pipeline.cu: bulk copies in and out, a warp that loads, and what happens when it is done wrongly."""

from __future__ import annotations

import numpy as np
import pytest

from gen.ptx import Fault, Module, Report, Undefined
from tests.ptx.outside.conftest import SPIN_LIMIT, CompileCuda

COLUMNS, STAGES, EPSILON = 1024, 3, 1e-6
SHARED_BYTES = 4 * COLUMNS * (STAGES + 2) + 128


def launch(module: Module, rows: int, blocks: int) -> tuple[np.ndarray, np.ndarray, Report]:
    """(result, expected, report) of normalizing random rows."""
    rng = np.random.default_rng(rows)
    x = rng.standard_normal((rows, COLUMNS)).astype(np.float32)
    weight = rng.uniform(0.5, 2, COLUMNS).astype(np.float32)
    y = np.zeros_like(x)
    report = module["rms_norm"].launch(
        (blocks,),
        (160,),
        [x, weight, Undefined(y), rows, EPSILON],
        SHARED_BYTES,
        written=[2],
        spin_limit=SPIN_LIMIT,
    )
    exact = x.astype(np.float64)
    return y, exact / np.sqrt((exact**2).mean(1, keepdims=True) + EPSILON) * weight, report


def test_rms_norm(compile_cuda: CompileCuda) -> None:
    y, expected, report = launch(compile_cuda("bulk_pipeline.cu"), rows=17, blocks=2)
    assert np.allclose(y, expected, rtol=2e-6)
    assert report.warnings == []
    assert report.thread_instructions["setmaxnreg"] == 2 * 160


MISTAKES = {
    "no transaction count": (
        "arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, barrier, ROW_BYTES)",
        "arrive(barrier)",
        "pending copy",
    ),
    "no wait for the data": ("wait(&s.full[stage], phase);", "", "pending copy"),
    "no wait for a free stage": ("wait(&s.empty[stage], phase ^ 1);", "", "pending copy"),
    "wrong parity": ("wait(&s.empty[stage], phase ^ 1);", "wait(&s.empty[stage], phase);", "mbarrier misuse"),
    "no proxy fence": ("ptx::fence_proxy_async(ptx::space_shared);", "", "missing proxy fence"),
    "result overwritten too early": (
        "if (tid == 0) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());", "", "pending copy"
    ),
    "barrier for fewer warps": ('"n"(CONSUMERS)', '"n"(CONSUMERS - 32)', "barrier mismatch"),
    "last store never waited for": (
        "if (tid == 0) ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());", "", "pending copy"
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_reported(compile_cuda: CompileCuda, mistake: str) -> None:
    old, new, kind = MISTAKES[mistake]
    with pytest.raises(Fault) as caught:
        launch(compile_cuda("bulk_pipeline.cu", (old, new)), rows=9, blocks=1)
    assert caught.value.kind == kind
