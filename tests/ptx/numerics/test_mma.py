"""mma against a loop over single elements, with the fragment layouts written out again from the PTX ISA."""

import math
import warnings

import ml_dtypes
import numpy as np
import pytest

from gen.ptx.numerics.mma import Scale, fragment_a, fragment_b, fragment_c, mma, scales_a, scales_b, scatter_d

WARPS = 2
BITS = {"tf32": 32, "f16": 16, "bf16": 16, "s8": 8, "u8": 8} | dict.fromkeys(
    ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), 8
)
DTYPES = {
    "f16": (np.uint16, np.float16),
    "bf16": (np.uint16, ml_dtypes.bfloat16),
    "s8": (np.uint8, np.int8),
    "u8": (np.uint8, np.uint8),
    "e4m3": (np.uint8, ml_dtypes.float8_e4m3fn),
    "e5m2": (np.uint8, ml_dtypes.float8_e5m2),
    "e3m2": (np.uint8, ml_dtypes.float6_e3m2fn),
    "e2m3": (np.uint8, ml_dtypes.float6_e2m3fn),
    "e2m1": (np.uint8, ml_dtypes.float4_e2m1fn),
    "ue8m0": (np.uint8, ml_dtypes.float8_e8m0fnu),
    "ue4m3": (np.uint8, ml_dtypes.float8_e4m3fn),
}
F8F6F4 = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")


def number(code, type_):
    """The value of one code."""
    if type_ == "tf32":
        return float(np.array(code & 0xFFFFE000, dtype=np.uint32).view(np.float32))
    unsigned, dtype = DTYPES[type_]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(np.array(code, dtype=unsigned).view(dtype).astype(np.float64))


def element(word, j, type_, packed):
    """Element j of a register."""
    if packed:
        return number((word >> (4 * j)) & 0xF, type_)
    code = (word >> (BITS[type_] * j)) & ((1 << BITS[type_]) - 1)
    if type_ == "e2m1":
        code = (code >> 2) & 0xF
    elif type_ in ("e3m2", "e2m3"):
        code &= 0x3F
    return number(code, type_)


def place_a(lane, i, j, per):
    """Row and k of element j of A register i, by the number of elements in a register."""
    g, t = lane // 4, lane % 4
    row = g if i in (0, 2) else g + 8
    k = {1: t, 2: t * 2 + j, 4: t * 4 + j, 8: t * 8 + j}[per]
    return row, k + ({1: 4, 2: 8, 4: 16, 8: 32}[per] if i >= 2 else 0)


def place_b(lane, i, j, per):
    """k and column of element j of B register i."""
    t = lane % 4
    k = {1: t, 2: t * 2 + j, 4: t * 4 + j, 8: t * 8 + j}[per]
    return k + {1: 4, 2: 8, 4: 16, 8: 32}[per] * i, lane // 4


def dense(registers, type_, packed, place, shape):
    per = 8 if packed else 32 // BITS[type_]
    out = np.full((registers.shape[1], *shape), np.nan)
    for i, warp, lane in np.ndindex(registers.shape):
        for j in range(per):
            out[(warp, *place(lane, i, j, per))] = element(int(registers[i, warp, lane]), j, type_, packed)
    return out


def dense_c(registers, c_type):
    out = np.zeros((registers.shape[1], 16, 8))
    for i, warp, lane in np.ndindex(registers.shape):
        g, t, word = lane // 4, lane % 4, registers[i, warp, lane]
        if c_type == "f16":
            for j in range(2):
                out[warp, g + 8 * i, 2 * t + j] = number((int(word) >> (16 * j)) & 0xFFFF, "f16")
        else:
            value = word.view(np.int32 if c_type == "s32" else np.float32)
            out[warp, g if i < 2 else g + 8, 2 * t + i % 2] = value
    return out


def random_registers(rng, count, type_, packed=False):
    """Registers of finite operands, padding bits included."""
    words = rng.integers(0, 2**32, (count, WARPS, 32), dtype=np.uint32)
    if packed or type_ in ("s8", "u8", "e3m2", "e2m3", "e2m1"):
        return words
    keep = {
        "tf32": 0xC3FFFFFF,
        "f16": 0xBFFFBFFF,
        "bf16": 0xC3FFC3FF,
        "e4m3": 0xBFBFBFBF,
        "e5m2": 0xBFBFBFBF,
    }[type_]
    return words & np.uint32(keep)


def check(shape, a_type, b_type, c_type="f32", d_type="f32", kind=None, scale=None, seed=0):
    """Compare one instruction with the loop; `scale` is (scale_vec, scale_type, ids_a, ids_b)."""
    rng = np.random.default_rng(seed)
    k = int(shape.split("k")[1])
    packed = kind in ("mxf4", "mxf4nvf4")
    per = 8 if packed else 32 // BITS[a_type]
    a = random_registers(rng, 16 * k // 32 // per, a_type, packed)
    b = random_registers(rng, 8 * k // 32 // per, b_type, packed)
    c = {
        "f32": lambda: rng.standard_normal((4, WARPS, 32)).astype(np.float32).view(np.uint32),
        "s32": lambda: rng.integers(0, 2**32, (4, WARPS, 32), dtype=np.uint32),
        "f16": lambda: random_registers(rng, 2, "f16"),
    }[c_type]()
    A = dense(a, a_type, packed, place_a, (16, k))
    B = dense(b, b_type, packed, place_b, (k, 8))
    C = dense_c(c, c_type)
    assert not (np.isnan(A).any() or np.isnan(B).any())
    np.testing.assert_array_equal(fragment_a(a, a_type, k, kind), A)
    np.testing.assert_array_equal(fragment_b(b, b_type, k, kind), B)
    np.testing.assert_array_equal(fragment_c(c, c_type), C)
    options = {}
    if scale:
        vec, scale_type, ids_a, ids_b = scale
        blocks = int(vec[0])
        limit = 0x7F if scale_type == "ue4m3" else 0xFF
        sa, sb = (rng.integers(0, limit, (WARPS, 32, 4), dtype=np.uint8) for _ in range(2))
        if scale_type == "ue8m0":
            sa, sb = sa % 40 + 107, sb % 40 + 107
        options = {
            "kind": f"kind::{kind}",
            "scale_vec": vec,
            "scale_type": scale_type,
            "ids_a": ids_a,
            "ids_b": ids_b,
            "scale_a": sa.astype(np.uint8).view(np.uint32)[..., 0],
            "scale_b": sb.astype(np.uint8).view(np.uint32)[..., 0],
        }
        for warp in range(WARPS):
            for m in range(16):
                lane = 4 * (m % 8) + 2 * ids_a[1] + (1 if m >= 8 else 0)
                for kk in range(k):
                    A[warp, m, kk] *= number(sa[warp, lane, ids_a[0] + kk // (k // blocks)], scale_type)
            for n in range(8):
                for kk in range(k):
                    B[warp, kk, n] *= number(
                        sb[warp, 4 * n + ids_b[1], ids_b[0] + kk // (k // blocks)], scale_type
                    )
    elif kind:
        options = {"kind": kind}
    got = mma(shape, a_type, b_type, c_type, d_type, a, b, c, **options)
    assert got.dtype == np.uint32 and got.shape == ((2 if d_type == "f16" else 4), WARPS, 32)
    D = dense_c(got, d_type)
    for warp, m, n in np.ndindex(WARPS, 16, 8):
        terms = [C[warp, m, n]] + [A[warp, m, kk] * B[warp, kk, n] for kk in range(k)]
        exact = math.fsum(terms)
        if d_type == "s32":
            assert D[warp, m, n] == (int(exact) + 2**31) % 2**32 - 2**31
            continue
        with np.errstate(over="ignore"):
            wanted = np.float16(exact) if d_type == "f16" else np.float32(exact)
        unit = float(np.spacing(np.abs(wanted)))
        slack = math.fsum(map(abs, terms)) * 2.0**-48
        if abs(exact) > (65504 if d_type == "f16" else 3.4028234e38):
            assert D[warp, m, n] == wanted
        else:
            assert abs(D[warp, m, n] - exact) <= unit / 2 + slack


@pytest.mark.parametrize(
    ("shape", "type_"),
    [
        ("m16n8k4", "tf32"),
        ("m16n8k8", "tf32"),
        ("m16n8k8", "f16"),
        ("m16n8k16", "f16"),
        ("m16n8k8", "bf16"),
        ("m16n8k16", "bf16"),
        ("m16n8k16", "e4m3"),
        ("m16n8k32", "e4m3"),
        ("m16n8k16", "e5m2"),
        ("m16n8k32", "e5m2"),
    ],
)
def test_plain(shape, type_):
    check(shape, type_, type_)


def test_half_accumulators_and_mixed_fp8():
    check("m16n8k8", "f16", "f16", "f16", "f16")
    check("m16n8k16", "f16", "f16", "f16", "f16")
    check("m16n8k32", "e4m3", "e5m2", "f16", "f16")
    check("m16n8k32", "e5m2", "e4m3")


@pytest.mark.parametrize(("a_type", "b_type"), [("s8", "s8"), ("u8", "u8"), ("s8", "u8"), ("u8", "s8")])
def test_integers(a_type, b_type):
    check("m16n8k16", a_type, b_type, "s32", "s32")
    check("m16n8k32", a_type, b_type, "s32", "s32")


def test_integer_accumulation_wraps_or_saturates():
    ones = np.full((4, 1, 32), 0x01010101, dtype=np.uint32)
    top = np.full((4, 1, 32), 2**31 - 1, dtype=np.uint32)
    args = ("m16n8k32", "s8", "s8", "s32", "s32", ones, ones[:2], top)
    assert (mma(*args).view(np.int32) == -(2**31) + 31).all()
    assert (mma(*args, satfinite=True).view(np.int32) == 2**31 - 1).all()


@pytest.mark.parametrize("b_type", F8F6F4)
@pytest.mark.parametrize("a_type", F8F6F4)
def test_every_f8f6f4_pair(a_type, b_type):
    check("m16n8k32", a_type, b_type, kind="f8f6f4")


@pytest.mark.parametrize("byte_id", range(4))
@pytest.mark.parametrize(("a_type", "b_type"), [("e4m3", "e2m1"), ("e2m1", "e5m2"), ("e3m2", "e2m3")])
def test_mxf8f6f4(a_type, b_type, byte_id):
    scale = ("1X", "ue8m0", (byte_id, byte_id % 2), (3 - byte_id, byte_id))
    check("m16n8k32", a_type, b_type, kind="mxf8f6f4", scale=scale, seed=byte_id)


@pytest.mark.parametrize(
    ("kind", "vec", "scale_type", "ids_a", "ids_b"),
    [
        ("mxf4", "2X", "ue8m0", (0, 0), (2, 3)),
        ("mxf4", "2X", "ue8m0", (2, 1), (0, 1)),
        ("mxf4nvf4", "2X", "ue8m0", (2, 0), (2, 2)),
        ("mxf4nvf4", "4X", "ue4m3", (0, 1), (0, 3)),
        ("mxf4nvf4", "4X", "ue4m3", (0, 0), (0, 0)),
        ("mxf4nvf4", "4X", "ue8m0", (0, 1), (0, 2)),
    ],
)
def test_fp4(kind, vec, scale_type, ids_a, ids_b):
    check("m16n8k64", "e2m1", "e2m1", kind=kind, scale=(vec, scale_type, ids_a, ids_b), seed=3)


def test_default_scale_vector_and_exact_powers_of_two():
    code_one = np.uint32(0x22222222)  # e2m1 1.0 eight times
    a, b = np.full((4, 1, 32), code_one), np.full((2, 1, 32), code_one)
    c = np.zeros((4, 1, 32), dtype=np.uint32)
    scale = {
        "scale_type": "ue8m0",
        "scale_a": np.full((1, 32), 0x80808080, np.uint32),
        "scale_b": np.full((1, 32), 0x7E7E7E7E, np.uint32),
    }
    d = mma("m16n8k64", "e2m1", "e2m1", "f32", "f32", a, b, c, kind="mxf4", **scale)
    assert (d.view(np.float32) == 64).all()


def test_scatter_inverts_fragment_c():
    rng = np.random.default_rng(8)
    f32 = rng.standard_normal((4, 3, 32)).astype(np.float32).view(np.uint32)
    s32 = rng.integers(0, 2**32, (4, 3, 32), dtype=np.uint32)
    f16 = rng.integers(0, 2**32, (2, 3, 32), dtype=np.uint32) & np.uint32(0xBFFFBFFF)
    for registers, type_ in ((f32, "f32"), (s32, "s32"), (f16, "f16")):
        np.testing.assert_array_equal(scatter_d(fragment_c(registers, type_), type_), registers)


def test_scales_are_read_from_their_lanes():
    registers = np.arange(32, dtype=np.uint32)[None] * np.uint32(0x01010101)  # lane number in each byte
    value = lambda lanes: np.ldexp(1.0, np.array(lanes) - 127)  # noqa: E731
    a = scales_a(Scale(registers, "ue8m0", 1, 3, 1))
    np.testing.assert_array_equal(a[0, :, 0], value([4 * (m % 8) + 2 + m // 8 for m in range(16)]))
    b = scales_b(Scale(registers, "ue8m0", 2, 2, 3))
    np.testing.assert_array_equal(b[0, 1], value([4 * n + 3 for n in range(8)]))


def test_infinities_and_canonical_nan():
    a = np.zeros((4, 1, 32), dtype=np.uint32)
    b = np.full((2, 1, 32), 0x3F803F80, dtype=np.uint32)
    c = np.zeros((4, 1, 32), dtype=np.uint32)
    a[0, 0, 0] = 0x7F80  # row 0
    a[0, 0, 4] = 0xFFC1  # row 1: a NaN with sign and payload
    a[1, 0, 0] = 0xFF800000 | 0x7F80  # row 8: inf - inf
    d = mma("m16n8k16", "bf16", "bf16", "f32", "f32", a, b, c)
    rows = fragment_c(d, "f32")[0]
    assert np.isposinf(rows[0]).all() and (rows[2:8] == 0).all()
    assert (d[:2, 0, 4:8] == 0x7FFFFFFF).all() and (d[2:, 0, :4] == 0x7FFFFFFF).all()
    scale = np.full((1, 32), 0xFF, dtype=np.uint32)
    d = mma(
        "m16n8k32",
        "e4m3",
        "e4m3",
        "f32",
        "f32",
        a * 0,
        b,
        c,
        kind="mxf8f6f4",
        scale_type="ue8m0",
        scale_a=scale,
        scale_b=scale,
    )
    assert (d == 0x7FFFFFFF).all()


def test_what_is_not_an_instruction_is_refused():
    a, b, c = (np.zeros((n, 1, 32), dtype=np.uint32) for n in (4, 2, 4))
    s = np.zeros((1, 32), dtype=np.uint32)
    scaled = {"kind": "mxf8f6f4", "scale_vec": "1X", "scale_type": "ue8m0", "scale_a": s, "scale_b": s}
    f32 = ("f32", "f32", a, b, c)
    bad = [
        (("m16n8k16", "bf16", "f16", *f32), {}),
        (("m16n8k16", "bf16", "bf16", "f16", "f16", a, b, c), {}),
        (("m16n8k64", "e4m3", "e4m3", *f32), {}),
        (("m16n8k32", "e2m1", "e2m1", *f32), {}),
        (("m16n16k16", "bf16", "bf16", *f32), {}),
        (("m16n8k16", "bf16", "bf16", "f32", "f32", a[:2], b, c), {}),
        (("m16n8k32", "e4m3", "e4m3", *f32), scaled | {"scale_type": "ue4m3"}),
        (("m16n8k32", "e4m3", "e4m3", *f32), scaled | {"scale_a": None}),
        (("m16n8k32", "e4m3", "e4m3", *f32), scaled | {"ids_a": (0, 2)}),
        (("m16n8k32", "e4m3", "e4m3", *f32), scaled | {"ids_b": (4, 0)}),
        (("m16n8k64", "e2m1", "e2m1", *f32), scaled | {"kind": "mxf4", "scale_vec": "2X", "ids_a": (1, 0)}),
        (("m16n8k64", "e2m1", "e2m1", *f32), scaled | {"kind": "mxf4nvf4", "scale_vec": None}),
    ]
    for args, options in bad:
        with pytest.raises(ValueError, match="mma"):
            mma(*args, **options)
