"""Kernels that nvcc compiled, against NumPy."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest

from gen.ptx import Fault, Memory, Module, Undefined

RNG = np.random.default_rng(7)


def test_reduction_with_shuffles(compiled: Module) -> None:
    x = RNG.standard_normal(5000).astype(np.float32)
    out = np.zeros(1, np.float32)
    compiled["reduce_sum"].launch((3,), (256,), [x, out, len(x)])
    assert out[0] == pytest.approx(x.sum(dtype=np.float64), rel=1e-5)


def test_branch_per_thread(compiled: Module) -> None:
    n = 256
    x = RNG.integers(-(2**31), 2**31, n, dtype=np.int64).astype(np.int32)
    out = np.zeros(n, np.int32)
    compiled["dispatch"].launch((2,), (128,), [x, out])

    def wrap(v: int) -> int:
        return (v + 2**31) % 2**32 - 2**31

    def one(i: int, v: int) -> int:
        u = v % 2**32
        if i % 9 == 5:
            for k in range(i % 7):
                v = wrap(v * 5 + k)
            return v
        return wrap(
            [
                lambda: v * 3 + 1,
                lambda: int(v / 7),
                lambda: v - 5 * int(v / 5),
                lambda: bin(u).count("1"),
                lambda: 32 - u.bit_length(),
                lambda: v,
                lambda: int(f"{u:032b}"[::-1], 2),
                lambda: v << (i & 7),
                lambda: -v,
            ][i % 9]()
        )

    assert out.tolist() == [one(i, int(v)) for i, v in enumerate(x)]


def test_device_functions_and_struct_results(compiled: Module) -> None:
    x = RNG.standard_normal(200).astype(np.float32)
    out = np.zeros(100, np.float32)
    compiled["call_functions"].launch((4,), (32,), [x, out, 100])
    assert (out == np.abs(x[::2] - x[1::2])).all()


def test_local_array(compiled: Module) -> None:
    x = np.arange(256, dtype=np.int32)
    out = np.zeros_like(x)
    compiled["local_array"].launch((1,), (32,), [x, out, np.arange(8, dtype=np.int32)[::-1].copy()])
    assert (out.reshape(-1, 8) == x.reshape(-1, 8)[:, ::-1]).all()


def test_struct_parameter(compiled: Module) -> None:
    kernel = compiled["by_value"]
    assert kernel.parameters == ["b8[24]", "u64"]
    out = np.zeros(15)
    kernel.launch((1,), (32,), [struct.pack("<iifxxxxd", 3, 5, 2.5, 7.0), out])
    i = np.arange(15)
    assert np.allclose(out, (i // 5) * 2.5 + 7.0 / (i % 5 + 1), rtol=1e-15)


def test_failed_assertion(compiled: Module) -> None:
    x = np.arange(32, dtype=np.int32)
    compiled["check_positive"].launch((1,), (32,), [x])
    x[13] = -1
    with pytest.raises(Fault) as caught:
        compiled["check_positive"].launch((1,), (32,), [x])
    assert (caught.value.kind, caught.value.thread) == ("trap", (13, 0, 0))
    assert "the assertion `x[threadIdx.x] >= 0` of " in str(caught.value)
    assert "kernels.cu:" in str(caught.value)


def test_printf(compiled: Module) -> None:
    messages = compiled["print_all"].launch((1,), (3,), [7, 2.5]).messages
    expected = "%d of 7: -12|0x00ff| 2.50|2.500000e+00|text|c|123456789012|%% 5|"
    assert messages == [(expected % i).replace("%%", "%") for i in range(3)]


def test_last_block_merges_and_module_state_survives_launches(compiled: Module) -> None:
    kernel = compiled["last_block_sum"]
    for blocks in (7, 12):
        x = RNG.integers(0, 100, blocks * 32).astype(np.float32)
        partial, out = np.zeros(blocks, np.float32), np.zeros(1, np.float32)
        kernel.launch((blocks,), (32,), [x, Undefined(partial), out])
        assert out[0] == x.sum()


def test_blocks_wait_for_each_other(compiled: Module) -> None:
    token, order = np.zeros(1, np.int32), np.full(6, -1, np.int32)
    compiled["chain"].launch((6,), (64,), [token, order])
    assert order.tolist() == [5, 4, 3, 2, 1, 0]
    assert token[0] == 6


def test_matmul_with_async_copies(compiled: Module) -> None:
    k = 96
    a, b = (RNG.standard_normal((64, k)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    memory = Memory()
    report = compiled["matmul_bf16"].launch((1,), (128,), [a, b, Undefined(c), k], memory=memory)
    assert np.allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, atol=1e-4)
    assert not memory.unwritten(c).any()
    assert report.warp_instructions["mma"] == 4 * (k // 16) * 8
    assert report.warnings == []
