"""What block_scaled_gemm.cu computes: inputs, launch and the exact result."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import torch

from gen.ptx import Module, Report, TensorMap, Undefined

BM, BN, BK, STAGES = 128, 64, 128, 3
SPIN_LIMIT = 2000  # steps without progress
SHARED_BYTES = STAGES * (BM + BN) * (BK + 4) + 16 * STAGES
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


@dataclass
class Problem:
    """C[m, n] = (A · SFA)(B · SFB)ᵀ with one scale for 32 elements of k."""

    a: np.ndarray
    b: np.ndarray
    sfa: np.ndarray
    sfb: np.ndarray

    @staticmethod
    def random(m: int, n: int, k: int, seed: int = 0) -> Problem:
        """Small integers and halves, scales 2^−3 … 2^3: every sum is exact in float32."""
        rng = np.random.default_rng(seed)
        a = rng.integers(-8, 9, (m, k)).astype(ml_dtypes.float8_e4m3fn)
        b = rng.integers(0, 16, (n, k)).astype(np.uint8)
        sfa, sfb = (rng.integers(124, 131, (rows, k // 32)).astype(np.uint8) for rows in (m, n))
        return Problem(a, b, sfa, sfb)

    def expected(self) -> np.ndarray:
        """The exact result, float32 [m, n]."""
        a = self.a.astype(np.float64) * np.repeat(np.exp2(self.sfa - 127.0), 32, 1)
        b = E2M1[self.b] * np.repeat(np.exp2(self.sfb - 127.0), 32, 1)
        return (a @ b.T).astype(np.float32)

    def launch(self, module: Module) -> tuple[np.ndarray, Report]:
        """Runs the kernel; (C, report)."""
        (m, k), n = self.a.shape, len(self.b)
        packed = torch.from_numpy(self.b[:, ::2] | self.b[:, 1::2] << 4).clone()  # aligned to 64 bytes
        words = [np.ascontiguousarray(sf.view(np.uint32).T) for sf in (self.sfa, self.sfb)]
        c = np.zeros((m, n), np.float32)
        args = [
            TensorMap(self.a.view(np.uint8), box=(BK, BM), swizzle="128B"),
            TensorMap(packed, box=(BK, BN), swizzle="128B", elements="b4x16_p64"),
            *words, Undefined(c), np.array([m, n, k], np.int32).tobytes(),
        ]  # fmt: skip
        report = module["block_scaled_gemm"].launch(
            (n // BN, m // BM), (160,), args, SHARED_BYTES, written=[4], spin_limit=SPIN_LIMIT
        )
        return c, report
