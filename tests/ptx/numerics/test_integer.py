import numpy as np
import pytest

from gen.ptx.numerics import dot, integer

RNG = np.random.default_rng(9)
N = 2000
TYPES = {
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "s16": np.int16,
    "s32": np.int32,
    "s64": np.int64,
}
WIDE = [np.uint32, np.int32, np.uint64, np.int64]


def samples(dtype, n=N):
    """Random words, among them small ones, powers of two and the limits."""
    bits = np.dtype(dtype).itemsize * 8
    words = RNG.integers(0, 2**64, n, dtype=np.uint64) >> RNG.integers(0, 64, n).astype(np.uint64)
    words[: n // 10] = np.uint64(1) << RNG.integers(0, bits, n // 10).astype(np.uint64)
    words[n // 10 : n // 10 + 6] = [
        0,
        1,
        2**64 - 1,
        2 ** (bits - 1),
        2 ** (bits - 1) - 1,
        2 ** (bits - 1) + 1,
    ]
    RNG.shuffle(words)
    return words.astype(dtype)


def u32(n=N):
    return RNG.integers(0, 2**32, n, dtype=np.uint32)


def wrap(value, dtype):
    bits = np.dtype(dtype).itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if np.dtype(dtype).kind == "i" and value >> (bits - 1) else value


def truncated(x, y):
    q = abs(x) // abs(y)
    return -q if (x < 0) != (y < 0) else q


def test_prmt_generic_picks_bytes_and_replicates_signs():
    a, b, c = u32(), u32(), u32()
    d = np.concatenate(
        [integer.prmt(a, b, c), *(integer.prmt(a, b, np.full(N, s)) for s in (0x5410, 0x7632, 0xBC80))]
    )
    a, b, c = (
        np.tile(a, 4),
        np.tile(b, 4),
        np.concatenate([c, np.repeat(np.uint32([0x5410, 0x7632, 0xBC80]), N)]),
    )
    for x, y, s, got in zip(*(v.tolist() for v in (a, b, c, d)), strict=True):
        source = ((y << 32) | x).to_bytes(8, "little")
        wanted = bytes(
            (0xFF if source[n & 7] & 0x80 else 0) if n & 8 else source[n & 7]
            for n in [(s >> 4 * i) & 15 for i in range(4)]
        )
        assert got == int.from_bytes(wanted, "little")


@pytest.mark.parametrize(
    ("mode", "wanted"),  # results for selectors 0..3, from a = 33221100, b = 77665544
    [
        ("f4e", [0x33221100, 0x44332211, 0x55443322, 0x66554433]),
        ("b4e", [0x55667700, 0x66770011, 0x77001122, 0x00112233]),
        ("rc8", [0x00000000, 0x11111111, 0x22222222, 0x33333333]),
        ("ecl", [0x33221100, 0x33221111, 0x33222222, 0x33333333]),
        ("ecr", [0x00000000, 0x11111100, 0x22221100, 0x33221100]),
        ("rc16", [0x11001100, 0x33223322, 0x11001100, 0x33223322]),
    ],
)
def test_prmt_modes(mode, wanted):
    a, b = np.full(4, 0x33221100, np.uint32), np.full(4, 0x77665544, np.uint32)
    selector = np.array([0, 0xFFFFFFF1, 2, 3], dtype=np.uint32)
    assert integer.prmt(a, b, selector, mode).tolist() == wanted
    with pytest.raises(ValueError, match="prmt mode"):
        integer.prmt(a, b, selector, "f5e")


def test_lop3_is_a_truth_table():
    a, b, c = u32(), u32(), u32()
    for lut in range(256):
        wanted = np.zeros(N, dtype=np.uint32)
        for bit in range(32):
            index = ((a >> bit) & 1) * 4 + ((b >> bit) & 1) * 2 + ((c >> bit) & 1)
            wanted |= ((lut >> index) & 1) << np.uint32(bit)
        np.testing.assert_array_equal(integer.lop3(a, b, c, lut), wanted)
    np.testing.assert_array_equal(integer.lop3(a, b, c, 0xF0 & 0xCC | 0xAA), (a & b) | c)


@pytest.mark.parametrize("dtype", WIDE)
def test_bfe_and_bfi(dtype):
    bits = np.dtype(dtype).itemsize * 8
    a, b = samples(dtype), samples(dtype)
    pos, length = (RNG.integers(0, 80, N).astype(np.uint32) for _ in range(2))
    pos[:5], length[:5] = [0, 0, bits - 1, 256, 300], [bits, 0, 1, 256 + 5, 40]
    got = integer.bfe(a, pos, length)
    assert got.dtype == dtype
    for x, p, n, g in zip(a.tolist(), pos.tolist(), length.tolist(), got.tolist(), strict=True):
        p, n = p & 255, n & 255
        signed = np.dtype(dtype).kind == "i" and n > 0
        fill = (x >> min(p + n - 1, bits - 1)) & 1 if signed else 0
        d = sum((((x >> (p + i)) & 1) if i < n and p + i < bits else fill) << i for i in range(bits))
        assert g == wrap(d, dtype)
    if np.dtype(dtype).kind == "u":
        for x, y, p, n, g in zip(
            *(v.tolist() for v in (a, b, pos, length, integer.bfi(a, b, pos, length))), strict=True
        ):
            p, n = p & 255, n & 255
            for i in range(n):
                if p + i < bits:
                    y = (y & ~(1 << (p + i))) | (((x >> i) & 1) << (p + i))
            assert g == y


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_shf(mode):
    lo, hi, amount = u32(), u32(), RNG.integers(0, 70, N).astype(np.uint32)
    for direction in "lr":
        got = integer.shf(direction, mode, lo, hi, amount).tolist()
        for x, y, n, g in zip(lo.tolist(), hi.tolist(), amount.tolist(), got, strict=True):
            n = min(n, 32) if mode == "clamp" else n & 31
            value = (y << 32) | x
            assert g == ((value << n) >> 32 if direction == "l" else value >> n) & 0xFFFFFFFF
    with pytest.raises(ValueError, match="shf"):
        integer.shf("left", mode, lo, hi, amount)


@pytest.mark.parametrize("dtype", WIDE)
def test_counting_and_reversing(dtype):
    bits = np.dtype(dtype).itemsize * 8
    a = samples(dtype)
    unsigned = [x & ((1 << bits) - 1) for x in a.tolist()]
    assert integer.popc(a).tolist() == [x.bit_count() for x in unsigned]
    assert integer.clz(a).tolist() == [bits - x.bit_length() for x in unsigned]
    magnitude = [(~x if x < 0 else x) for x in a.tolist()]
    found = [m.bit_length() - 1 for m in magnitude]
    assert integer.bfind(a).tolist() == [f & 0xFFFFFFFF for f in found]
    assert integer.bfind(a, shiftamt=True).tolist() == [0xFFFFFFFF if f < 0 else bits - 1 - f for f in found]
    if np.dtype(dtype).kind == "u":
        assert integer.brev(a).tolist() == [int(f"{x:0{bits}b}"[::-1], 2) for x in unsigned]


def test_fns():
    mask, base, offset = (
        u32() & u32(),
        RNG.integers(0, 32, N).astype(np.uint32),
        RNG.integers(-12, 13, N).astype(np.int32),
    )
    offset[:4] = [0, 40, -40, 0]
    for m, p, n, g in zip(
        *(v.tolist() for v in (mask, base, offset, integer.fns(mask, base, offset))), strict=True
    ):
        order = [p] if n == 0 else range(p, 32) if n > 0 else range(p, -1, -1)
        hits = [i for i in order if m >> i & 1]
        k = max(abs(n), 1)
        assert g == (hits[k - 1] if len(hits) >= k else 0xFFFFFFFF)


@pytest.mark.parametrize("b_signed", [False, True])
@pytest.mark.parametrize("a_signed", [False, True])
def test_dp4a(a_signed, b_signed):
    a, b = u32(), u32()
    dtype = np.int32 if a_signed or b_signed else np.uint32
    c = samples(dtype)
    got = dot.dp4a(a, b, c, a_signed=a_signed, b_signed=b_signed)
    assert got.dtype == dtype

    def part(x, i, signed):
        return int.from_bytes([(x >> 8 * i) & 0xFF], "little", signed=signed)

    for x, y, z, g in zip(*(v.tolist() for v in (a, b, c, got)), strict=True):
        assert g == wrap(z + sum(part(x, i, a_signed) * part(y, i, b_signed) for i in range(4)), dtype)


@pytest.mark.parametrize("dtype", TYPES.values())
def test_multiplication_division_and_shifts(dtype):
    bits = np.dtype(dtype).itemsize * 8
    a, b, c = samples(dtype), samples(dtype), samples(dtype)
    b[:50] = 0
    if np.dtype(dtype).kind == "i":
        b[50:60] = -1
        a[50] = np.iinfo(dtype).min
    amount = RNG.integers(0, 2 * bits, N).astype(np.uint32)
    amount[:3] = [bits, bits - 1, 2**32 - 1]
    columns = (
        a,
        b,
        c,
        amount,
        integer.mul_hi(a, b),
        integer.div(a, b),
        integer.rem(a, b),
        integer.sad(a, b, c),
        integer.shl(a, amount),
        integer.shr(a, amount),
    )
    assert all(v.dtype == dtype for v in columns[4:])
    for x, y, z, n, hi, q, r, s, left, right in zip(*(v.tolist() for v in columns), strict=True):
        assert hi == wrap((x * y) >> bits, dtype)
        assert q == wrap(truncated(x, y) if y else -1, dtype)
        assert r == wrap(x - y * truncated(x, y) if y else -1, dtype)
        assert s == wrap(z + abs(x - y), dtype)
        assert left == wrap(x << n if n < bits else 0, dtype)
        assert right == x >> min(n, bits)


@pytest.mark.parametrize("dtype", [np.uint32, np.int32])
def test_mul24(dtype):
    a, b = samples(dtype), samples(dtype)
    signed = dtype is np.int32
    for x, y, lo, hi in zip(
        *(v.tolist() for v in (a, b, integer.mul24(a, b), integer.mul24(a, b, hi=True))), strict=True
    ):
        x, y = (v & 0xFFFFFF for v in (x, y))
        if signed:
            x, y = (v - (1 << 24) if v >> 23 else v for v in (x, y))
        assert (lo, hi) == (wrap(x * y, dtype), wrap((x * y) >> 16, dtype))


def test_saturating_addition():
    a, b = samples(np.int32), samples(np.int32)
    for x, y, s, d in zip(
        *(v.tolist() for v in (a, b, integer.add_sat(a, b), integer.sub_sat(a, b))), strict=True
    ):
        assert s == min(max(x + y, -(2**31)), 2**31 - 1)
        assert d == min(max(x - y, -(2**31)), 2**31 - 1)
