"""cute_block_scaled_gemm.py: e4m3 by e2m1 by CuTe DSL's own mma and layouts of scales; exact results."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gen.ptx import Fault, TensorMap, Undefined
from tests.ptx.outside.block_scaled import Problem
from tests.ptx.outside.conftest import CompileCute, CuteKernel

M, N, K, TILE = 256, 128, 512, 128
ATOM = 256  # 16-bit words of 128 rows by 4 scales


def atoms(scales: np.ndarray) -> np.ndarray:
    """Scales [rows, k / 32] as int16 [rows / 128, k / 128, ATOM]: row 32i + j is at byte 16j + 4i."""
    rows, groups = scales.shape
    parts = scales.reshape(rows // 128, 4, 32, groups // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(parts).view(np.int16).reshape(rows // 128, groups // 4, ATOM)


def launch(kernel: CuteKernel) -> tuple[np.ndarray, np.ndarray]:
    """(C, expected C)."""
    problem = Problem.random(M, N, K, seed=3)
    packed = torch.from_numpy(problem.b[:, ::2] | problem.b[:, 1::2] << 4).clone()
    sfa, sfb = atoms(problem.sfa), atoms(problem.sfb)
    c = np.zeros((M, N), np.float32)
    args = [
        bytes(16),  # the TiledMma: where its scales would be by default
        TensorMap(problem.a.view(np.uint8), box=(TILE, TILE), swizzle="128B"),
        TensorMap(packed, box=(TILE, TILE), swizzle="128B", elements="b4x16_p64"),
        TensorMap(sfa.transpose(1, 0, 2), box=(ATOM, 1, 1)),
        TensorMap(sfb[0], box=(ATOM, 1)),
        Undefined(c),
    ]
    report = kernel.launch((N // TILE, M // TILE), 288, args, written=[5])
    assert report.warnings == []
    return c, problem.expected()


def test_block_scaled_gemm(cute_kernel: CompileCute) -> None:
    c, expected = launch(cute_kernel("cute_block_scaled_gemm.py"))
    assert (c == expected).all()


MISTAKES = {
    "padding counted as transferred": ("+ TILE * TILE // 2", "+ TILE * TILE", "mbarrier misuse"),
    "scales released before they were read": (
        "cute.copy(\n                    copy_sfb,",
        "loads.consumer_release(state)\n                cute.copy(\n                    copy_sfb,",
        "pending copy",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_reported(cute_kernel: CompileCute, mistake: str) -> None:
    old, new, kind = MISTAKES[mistake]
    with pytest.raises(Fault) as caught:
        launch(cute_kernel("cute_block_scaled_gemm.py", (old, new)))
    assert caught.value.kind == kind


def test_codes_must_be_shifted_to_the_middle_of_their_byte(cute_kernel: CompileCute) -> None:
    c, expected = launch(cute_kernel("cute_block_scaled_gemm.py", ("codes[i] << 2", "codes[i] << 1")))
    assert (c != expected).any()
