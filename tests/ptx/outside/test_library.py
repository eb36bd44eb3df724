"""library.cu: CUDA headers: reductions, scans, sorts, groups, pipelines, narrow types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from gen.ptx import Module
from tests.ptx.outside.conftest import CompileCuda

RNG = np.random.default_rng(11)


@pytest.fixture(scope="module")
def library(compile_cuda: CompileCuda) -> Module:
    return compile_cuda("library.cu")


def test_cub_reduction_and_scan(library: Module) -> None:
    x, out = RNG.integers(-100, 100, 128).astype(np.int32), np.zeros(129, np.int32)
    library["scan"].launch((1,), (128,), [x, out])
    assert (out == np.r_[0, np.cumsum(x)]).all()


def test_cub_radix_sort(library: Module) -> None:
    x, out = RNG.integers(0, 2**32, 256, dtype=np.uint32), np.zeros(256, np.uint32)
    library["sort"].launch((1,), (64,), [x, out])
    assert (out == np.sort(x)).all()


def test_cooperative_groups(library: Module) -> None:
    x = RNG.integers(-10, 10, 128).astype(np.float32)
    sums, maxima, positive = np.zeros(16, np.float32), np.zeros(16, np.float32), np.zeros(1, np.int32)
    library["groups"].launch((1,), (128,), [x, sums, maxima, positive])
    assert (sums == x.reshape(16, 8).sum(1)).all()
    assert (maxima == x.reshape(16, 8).max(1)).all()
    assert positive[0] == (x > 0).sum()


def test_pipeline_of_two_stages(library: Module) -> None:
    x, out = RNG.integers(-10, 10, (5, 64)).astype(np.int32), np.zeros(64, np.int32)
    library["pipeline"].launch((1,), (64,), [x, out, len(x)])
    assert (out == x.sum(0)[::-1]).all()


def test_half_and_bfloat16_pairs(library: Module) -> None:
    x = RNG.standard_normal((64, 2)).astype(np.float16)
    y = RNG.standard_normal((64, 2)).astype(ml_dtypes.bfloat16)
    out, out_bf16 = np.zeros((32, 6, 2), np.float16), np.zeros((32, 6, 2), ml_dtypes.bfloat16)
    library["halves"].launch((1,), (32,), [x, out, y, out_bf16])
    a, b, c, d = (v.astype(np.float32) for v in (x[::2], x[1::2], y[::2], y[1::2]))
    results = [a * b + a, np.exp2(a), np.maximum(a, b), np.tanh(a), np.sqrt(abs(a)), 1 / a]
    assert np.allclose(out, np.stack(results, 1), rtol=2**-10, atol=2**-10)
    fused = c * d + c
    results = [fused, np.exp2(c), np.minimum(c, d), c + d, np.log2(abs(c)), np.maximum(fused, 0)]
    assert np.allclose(out_bf16.astype(np.float32), np.stack(results, 1), rtol=2**-7, atol=2**-7)


def test_eight_and_four_bit_conversions(library: Module) -> None:
    x = (3 * RNG.standard_normal((32, 2))).astype(np.float32)
    e4m3, e2m1 = np.zeros((32, 2), np.uint8), np.zeros(32, np.uint8)
    from_e4m3, from_e2m1 = np.zeros((32, 2), np.float16), np.zeros((32, 2), np.float16)
    library["narrow"].launch((1,), (32,), [x, e4m3, from_e4m3, e2m1, from_e2m1])
    exact = x.astype(ml_dtypes.float8_e4m3fn)
    assert (e4m3 == exact.view(np.uint8)).all()
    assert (from_e4m3 == exact.astype(np.float16)).all()
    exact = np.clip(x, -6, 6).astype(ml_dtypes.float4_e2m1fn)
    codes = exact.view(np.uint8)
    assert (e2m1 == (codes[:, 0] | codes[:, 1] << 4)).all()
    assert (from_e2m1 == exact.astype(np.float16)).all()
