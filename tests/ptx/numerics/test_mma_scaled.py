"""Block-scaled mma as PTX: every pair of types, scale vector, scale type and selector, in exact arithmetic.

The reference adds integers: every code is a multiple of the least value of its type, every scale one of the
least scale drawn.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tests.ptx.assemble import assemble
from tests.ptx.numerics.test_mma import F8F6F4, element, number, place_a, place_b

LEAST = {"e4m3": -9, "e5m2": -16, "e3m2": -4, "e2m3": -3, "e2m1": -1, "ue8m0": -127, "ue4m3": -9}
THREADS = [(a, b) for a in range(2) for b in range(4)]
_SPREAD = 12  # binades of the scales, so that terms of all blocks count


def multiples(values: np.ndarray, type_: str) -> np.ndarray:
    """Python integers: the values over the least value of their type."""
    return np.array([int(v * 2.0 ** -LEAST[type_]) for v in values.ravel()], object).reshape(values.shape)


def scale_codes(rng: np.random.Generator, type_: str) -> np.ndarray:
    """Scale registers as bytes [32, 4]; of ue4m3 every finite code but negative ones."""
    codes = rng.integers(0, 0x7F, (32, 4)) if type_ == "ue4m3" else rng.integers(121, 121 + _SPREAD, (32, 4))
    return codes.astype(np.uint8)


def run(instruction: str, registers: list[np.ndarray], ids: tuple[int, int, int, int]) -> np.ndarray:
    """D as float32 [32, 4] of one warp; registers of A, B, C and the scales are [count, 32]."""
    names, loads = [], []
    for i, words in enumerate(registers):
        loads.append(f"mad.wide.u32 %rd1, %r0, {4 * len(words)}, %rd8{i};")
        regs = [f"%{'f' if i == 2 else 'r'}{10 + 6 * i + j}" for j in range(len(words))]
        loads += [f"ld.global.b32 {reg}, [%rd1+{4 * j}];" for j, reg in enumerate(regs)]
        names.append("{" + ", ".join(regs) + "}")
    a, b, c, sa, sb = names
    byte_a, thread_a, byte_b, thread_b = ids
    body = f"""
    {" ".join(loads)}
    {instruction} {{%f1, %f2, %f3, %f4}}, {a}, {b}, {c}, {sa}, {{{byte_a}, {thread_a}}}, {sb}, {{{byte_b}, {thread_b}}};
    mad.wide.u32 %rd1, %r0, 16, %rd85; st.global.v4.f32 [%rd1], {{%f1, %f2, %f3, %f4}};
    """  # noqa: E501
    out = np.zeros((32, 4), np.float32)
    kernel = assemble(body, "u64 u64 u64 u64 u64 u64")
    kernel.launch((1,), (32,), [*(np.ascontiguousarray(r.T) for r in registers), out])
    return out


def check(kind: str, vec: str, a_type: str, b_type: str, scale: str, ids: tuple[int, int, int, int]) -> None:
    """One instruction on random codes."""
    rng = np.random.default_rng([*ids, *f"{kind} {a_type} {b_type} {scale}".encode()])
    packed = kind != "mxf8f6f4"
    k, per = (64, 8) if packed else (32, 4)
    blocks = int(vec[0])
    a, b = (rng.integers(0, 2**32, (n, 32), dtype=np.uint32) for n in (4, 2))
    for words, type_ in ((a, a_type), (b, b_type)):
        words &= np.uint32({"e4m3": 0xBFBFBFBF, "e5m2": 0xBFBFBFBF}.get(type_, 0xFFFFFFFF))  # finite codes
    c = rng.standard_normal((4, 32)).astype(np.float32)
    sa, sb = scale_codes(rng, scale), scale_codes(rng, scale)
    instruction = (
        f"mma.sync.aligned.kind::{kind}.block_scale.scale_vec::{vec}.m16n8k{k}.row.col"
        f".f32.{a_type}.{b_type}.f32.{scale}"
    )
    scales = [s.view(np.uint32).reshape(1, 32) for s in (sa, sb)]
    got = run(instruction, [a, b, c.view(np.uint32), *scales], ids)

    byte_a, thread_a, byte_b, thread_b = ids
    A, B = np.zeros((16, k)), np.zeros((k, 8))
    for dense, words, type_, place in ((A, a, a_type, place_a), (B, b, b_type, place_b)):
        for i, lane in np.ndindex(words.shape):
            for j in range(per):
                dense[place(lane, i, j, per)] = element(int(words[i, lane]), j, type_, packed)
    least = -127 + 121 if scale == "ue8m0" else LEAST["ue4m3"]
    value = lambda code: int(number(code, scale) * 2.0**-least)  # noqa: E731
    rows = [
        [value(sa[4 * (m % 8) + 2 * thread_a + m // 8, byte_a + q]) for q in range(blocks)] for m in range(16)
    ]
    columns = [[value(sb[4 * n + thread_b, byte_b + q]) for q in range(blocks)] for n in range(8)]
    exact_a = multiples(A, a_type) * np.repeat(np.array(rows, object), k // blocks, axis=1)
    exact_b = multiples(B, b_type) * np.repeat(np.array(columns, object), k // blocks, axis=1).T
    exponent = LEAST[a_type] + LEAST[b_type] + 2 * least
    unit = Fraction(2) ** exponent
    for lane, i in product(range(32), range(4)):
        m, n = lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2
        terms = exact_a[m] * exact_b[:, n]
        addend = Fraction(float(c[i, lane]))
        exact = sum(terms.tolist()) * unit + addend
        slack = (sum(map(abs, terms.tolist())) * unit + abs(addend)) / 2**46  # sums are taken in float64
        spacing = Fraction(float(np.spacing(np.abs(got[lane, i]))))
        assert abs(Fraction(float(got[lane, i])) - exact) <= spacing / 2 + slack, (m, n)


@pytest.mark.parametrize("b_type", F8F6F4)
@pytest.mark.parametrize("a_type", F8F6F4)
def test_every_pair_of_mxf8f6f4(a_type: str, b_type: str) -> None:
    turn = F8F6F4.index(a_type) + 2 * F8F6F4.index(b_type)
    check("mxf8f6f4", "1X", a_type, b_type, "ue8m0", (turn % 4, turn % 2, (turn + 1) % 4, (turn // 2) % 4))


@pytest.mark.parametrize("threads", THREADS)
def test_every_selector_of_mxf8f6f4(threads: tuple[int, int]) -> None:
    for byte_a, byte_b in product(range(4), range(4)):
        check("mxf8f6f4", "1X", "e4m3", "e2m1", "ue8m0", (byte_a, threads[0], byte_b, threads[1]))


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("kind", ["mxf4", "mxf4nvf4"])
def test_every_selector_of_two_scales(kind: str, threads: tuple[int, int]) -> None:
    for byte_a, byte_b in product((0, 2), (0, 2)):
        check(kind, "2X", "e2m1", "e2m1", "ue8m0", (byte_a, threads[0], byte_b, threads[1]))


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("scale", ["ue4m3", "ue8m0"])
def test_every_selector_of_four_scales(scale: str, threads: tuple[int, int]) -> None:
    check("mxf4nvf4", "4X", "e2m1", "e2m1", scale, (0, threads[0], 0, threads[1]))
