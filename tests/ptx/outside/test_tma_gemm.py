"""tma_gemm.cu: tensor maps, the 128B swizzle, matrix loads and stores; exact results."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from gen.ptx import Fault, Module, TensorMap, Undefined
from tests.ptx.outside.conftest import SPIN_LIMIT, CompileCuda

TILE, STAGES = 64, 3
SHARED_BYTES = TILE * TILE * 2 * (2 * STAGES + 1) + 16 * STAGES


def launch(module: Module, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(C, expected C) for small integers, of which every sum is exact in float32."""
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-8, 9, (rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    c = np.zeros((m, n), ml_dtypes.bfloat16)
    maps = [TensorMap(x, box=(TILE, TILE), swizzle="128B") for x in (a, b, Undefined(c))]
    module["gemm"].launch(
        (-(-n // TILE), -(-m // TILE)), (160,), [*maps, k], SHARED_BYTES, written=[2], spin_limit=SPIN_LIMIT
    )
    return c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(("m", "n", "k"), [(128, 64, 320), (72, 104, 200)])
def test_gemm(compile_cuda: CompileCuda, m: int, n: int, k: int) -> None:
    c, expected = launch(compile_cuda("tma_gemm.cu"), m, n, k)
    assert (c == expected).all()


MISTAKES = {
    "bytes of one operand expected": ("2 * TILE_BYTES);", "TILE_BYTES);", "pending copy"),
    "no wait for the data": ("mbarrier_wait(&s.full[stage], phase);", "", "pending copy"),
    "no wait for a free stage": ("mbarrier_wait(&s.empty[stage], phase ^ 1);", "", "pending copy"),
    "stages never freed": ("if (elect_one()) mbarrier_arrive(&s.empty[stage]);", "", "mbarrier misuse"),
    "no proxy fence": ("    fence_proxy_async();\n", "", "missing proxy fence"),
    "no barrier before the store": ("    named_barrier(1, CONSUMERS);\n", "", "data race"),
    "uncommitted store": ("        bulk_commit();\n", "", "pending copy"),
    "arrivals by every lane": ("if (elect_one()) mbarrier_arrive", "mbarrier_arrive", "mbarrier misuse"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_reported(compile_cuda: CompileCuda, mistake: str) -> None:
    old, new, kind = MISTAKES[mistake]
    with pytest.raises(Fault) as caught:
        launch(compile_cuda("tma_gemm.cu", (old, new)), 64, 64, 320)
    assert caught.value.kind == kind


def test_report_of_a_stuck_pipeline_tells_who_waits_for_what(compile_cuda: CompileCuda) -> None:
    old, new, _ = MISTAKES["stages never freed"]
    with pytest.raises(Fault, match="for the mbarrier at 0x") as caught:
        launch(compile_cuda("tma_gemm.cu", (old, new)), 64, 64, 320)
    full, empty = 0x400 + SHARED_BYTES - 16 * STAGES, 0x400 + SHARED_BYTES - 8 * STAGES
    assert f"At {full:#x} the barrier is in phase 1 (parity 1), lacking 1 of 1 arrivals" in str(caught.value)
    assert f"At {empty:#x} the barrier is in phase 0 (parity 0), lacking 4 of 4" in str(caught.value)
    assert "ptx.cuh:" in str(caught.value.source)
    assert "tma_gemm.cu:" in str(caught.value.source)
