"""cute_gemm.py: a bf16 GEMM of CuTe DSL; exact results."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from gen.ptx import Fault, TensorMap, Undefined
from tests.ptx.outside.conftest import CompileCute, CuteKernel

M, N, K, TILE = 128, 192, 320, 64


def launch(kernel: CuteKernel) -> tuple[np.ndarray, np.ndarray]:
    """(C, expected C) for small integers, of which every sum is exact in float32."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-8, 9, (rows, K)).astype(ml_dtypes.bfloat16) for rows in (M, N))
    c = np.zeros((M, N), ml_dtypes.bfloat16)
    maps = [TensorMap(x, box=(TILE, TILE), swizzle="128B") for x in (a, b, Undefined(c))]
    report = kernel.launch((N // TILE, M // TILE), 160, maps, written=[2])
    assert report.warnings == []
    assert report.warp_instructions["mma"] == (M // 16) * (N // 8) * (K // 16)
    return c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(ml_dtypes.bfloat16)


def test_gemm(cute_kernel: CompileCute) -> None:
    c, expected = launch(cute_kernel("cute_gemm.py"))
    assert (c == expected).all()


MISTAKES = {
    "only A's bytes expected": ("2 * TILE * TILE * 2", "TILE * TILE * 2", "pending copy"),
    "no wait for a free stage": ("loads.producer_acquire(state)", "pass", "pending copy"),
    "stage released before it was read": (
        "            loads.consumer_wait(state)\n",
        "            loads.consumer_wait(state)\n            loads.consumer_release(state)\n",
        "pending copy",
    ),
    "no proxy fence": ('cute.arch.fence_proxy("async.shared", space="cta")', "pass", "missing proxy fence"),
    "no wait before the end": ("cute.arch.cp_async_bulk_wait_group(0, read=True)", "pass", "pending copy"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_reported(cute_kernel: CompileCute, mistake: str) -> None:
    old, new, kind = MISTAKES[mistake]
    with pytest.raises(Fault) as caught:
        launch(cute_kernel("cute_gemm.py", (old, new)))
    assert caught.value.kind == kind
