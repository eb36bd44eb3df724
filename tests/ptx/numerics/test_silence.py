"""Every bit pattern class, signalling NaN included, passes through every function without a NumPy warning."""

import warnings

import numpy as np

from gen.ptx.numerics import approx, float32, float64, half
from gen.ptx.numerics.convert import convert, convert_x2
from gen.ptx.numerics.mma import mma

HALF = np.concatenate([np.arange(0, 65536, 7, dtype=np.uint16), np.uint16([0x7C01, 0xFC01, 0x7F81, 0xFF81])])
SINGLE = (HALF.astype(np.uint32) << 16 | 0x1234).view(np.float32)
DOUBLE = (HALF.astype(np.uint64) << 48 | 0x1234).view(np.float64)


def test_no_function_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for r in ("rn", "rz", "rm", "rp"):
            for module, x in ((float32, SINGLE), (float64, DOUBLE)):
                for function in (module.add, module.sub, module.mul, module.div):
                    function(x, x[::-1], r)
                module.fma(x, x[::-1], np.roll(x, 99), r)
                module.sqrt(x, r), module.rcp(x, r), module.minimum(x, x[::-1]), module.maximum(x, x[::-1])
            float32.fma(SINGLE, SINGLE[::-1], SINGLE, r, True, True)
            for dst in ("f16", "bf16", "f32", "f64"):
                for src, x in (("f16", HALF), ("bf16", HALF), ("f32", SINGLE), ("f64", DOUBLE)):
                    convert(x, dst, src, r, sat=r == "rm", ftz=True)
        for op in ("add", "mul", "min", "ex2", "tanh"):
            for fmt in ("f16", "bf16"):
                half.arith(
                    op, fmt, *(HALF, HALF[::-1])[: 1 if op in ("ex2", "tanh") else 2], ftz=True, relu=True
                )
        for function in (
            approx.ex2,
            approx.lg2,
            approx.rcp,
            approx.rsqrt,
            approx.sqrt,
            approx.sin,
            approx.cos,
        ):
            function(SINGLE, True)
        (
            approx.tanh(SINGLE),
            approx.div_approx(SINGLE, SINGLE[::-1]),
            approx.div_full(SINGLE, SINGLE[::-1], True),
        )
        for src, x in (("f16", HALF), ("bf16", HALF), ("f32", SINGLE), ("f64", DOUBLE)):
            for dst in ("u8", "s32", "u64", "s64"):
                convert(x, dst, src, "rni")
        convert_x2("e4m3x2", "f32", SINGLE, SINGLE), convert_x2("e2m1x2", "bf16x2", HALF, HALF)
        words = np.arange(4 * 8 * 32, dtype=np.uint32).reshape(4, 8, 32) * np.uint32(0x9E3779B9)
        for type_ in ("f16", "bf16"):
            mma("m16n8k16", type_, type_, "f32", "f32", words, words[:2], words)
