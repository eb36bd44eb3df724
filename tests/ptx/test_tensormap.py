# ruff: noqa: E501 - PTX bodies read better unbroken
"""Tensor copies by tensor maps: boxes, bounds, strides, swizzles, stores, reductions, and what maps refuse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gen.ptx import Fault, Kernel, Module, PtxError, TensorMap
from tests.ptx.assemble import assemble

THREADS = 64


def coordinates(start: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, start)) + "}"


def loader(start: Sequence[int], size: int, *, offset: int = 0, expected: int | None = None) -> Kernel:
    """A kernel (map, out) that loads a box of `size` bytes to tile + offset and copies that to `out`."""
    copy = f"cp.async.bulk.tensor.{len(start)}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    body = f"""
    mov.u32 %r2, tile; add.u32 %r2, %r2, {offset}; mov.u32 %r3, bar; setp.ne.u32 %p0, %r0, 0; @%p0 bra READY;
    mbarrier.init.shared::cta.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {size if expected is None else expected};
    {copy} [%r2], [%rd80, {coordinates(start)}], [%r3];
READY: bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0; @!%p1 bra WAIT;
    mov.u32 %r4, %r0;
NEXT: setp.ge.u32 %p2, %r4, {size // 4}; @%p2 bra DONE;
    shl.b32 %r5, %r4, 2; add.u32 %r6, %r5, %r2; ld.shared.u32 %r7, [%r6];
    mul.wide.u32 %rd1, %r4, 4; add.s64 %rd1, %rd81, %rd1; st.global.u32 [%rd1], %r7;
    add.u32 %r4, %r4, {THREADS}; bra NEXT;
DONE:
    """
    declare = f".shared .align 1024 .b8 tile[{size + offset}]; .shared .align 8 .b64 bar;"
    return assemble(body, "u64 u64", declare=declare)


def load(
    tensor_map: TensorMap, start: Sequence[int], size: int, offset: int = 0, expected: int | None = None
) -> np.ndarray:
    """The bytes that a load leaves in shared memory; `expected` of them count on the barrier (None: all)."""
    out = np.zeros(size, np.uint8)
    loader(start, size, offset=offset, expected=expected).launch(
        (1,), (THREADS,), [tensor_map, out], spin_limit=2000
    )
    return out


def storer(start: Sequence[int], size: int, operation: str = "") -> Kernel:
    """A kernel (map, in) that copies `size` bytes to shared memory and stores them, or reduces, as a box."""
    copy = f"cp.reduce.async.bulk.tensor.{{}}.global.shared::cta.{operation}.tile.bulk_group"
    copy = copy if operation else "cp.async.bulk.tensor.{}.global.shared::cta.tile.bulk_group"
    body = f"""
    mov.u32 %r2, tile; setp.ne.u32 %p0, %r0, 0; mov.u32 %r4, %r0;
NEXT: setp.ge.u32 %p2, %r4, {size // 4}; @%p2 bra FILLED;
    shl.b32 %r5, %r4, 2; add.u32 %r6, %r5, %r2; mul.wide.u32 %rd1, %r4, 4; add.s64 %rd1, %rd81, %rd1;
    ld.global.u32 %r7, [%rd1]; st.shared.u32 [%r6], %r7;
    add.u32 %r4, %r4, {THREADS}; bra NEXT;
FILLED: fence.proxy.async.shared::cta; bar.sync 0; @%p0 bra DONE;
    {copy.format(f"{len(start)}d")} [%rd80, {coordinates(start)}], [%r2];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
DONE:
    """
    return assemble(body, "u64 u64", declare=f".shared .align 1024 .b8 tile[{size}];")


def store(tensor_map: TensorMap, start: Sequence[int], data: np.ndarray, operation: str = "") -> None:
    storer(start, data.nbytes, operation).launch((1,), (THREADS,), [tensor_map, data])


def elements(shape: Sequence[int], start: Sequence[int], box: Sequence[int], steps: Sequence[int]) -> Any:
    """(place in the box, place in the array or None if out of bounds) of each element, outermost first."""
    axes = [range(0, n, s) for n, s in zip(box[::-1], steps[::-1], strict=True)]
    for inner in product(*axes):
        at = tuple(s + i for s, i in zip(start[::-1], inner, strict=True))
        inside = all(0 <= a < n for a, n in zip(at, shape, strict=True))
        yield tuple(i // s for i, s in zip(inner, steps[::-1], strict=True)), at if inside else None


def boxed(array: np.ndarray, start: Sequence[int], box: Sequence[int], steps: Any = None) -> np.ndarray:
    """What a box holds, with zeros out of bounds."""
    steps = steps or [1] * len(box)
    extents = [-(-n // s) for n, s in zip(box, steps, strict=True)]
    out = np.zeros(extents[::-1], array.dtype)
    for here, there in elements(array.shape, start, box, steps):
        if there is not None:
            out[here] = array[there]
    return out


def numbered(shape: Sequence[int], dtype: Any = np.uint32) -> np.ndarray:
    """Every element another number, none of them 0."""
    return (np.arange(math.prod(shape)) + 1).astype(dtype).reshape(shape)


def aligned(shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Random bytes at a multiple of 64."""
    size = math.prod(shape)
    storage = np.random.default_rng(seed).integers(0, 256, size + 64).astype(np.uint8)
    start = -storage.ctypes.data % 64
    return storage[start : start + size].reshape(shape)


CASES = [
    ((64,), (16,), [(0,), (4,), (60,), (-8,)]),
    ((9, 24), (8, 4), [(0, 0), (4, 3), (20, 7), (-4, -2), (24, 9)]),
    ((4, 5, 16), (4, 3, 2), [(0, 0, 0), (12, 4, 3), (-4, 1, -1)]),
    ((3, 2, 4, 8), (4, 2, 2, 3), [(0, 0, 0, 0), (4, 3, 1, 1), (0, -1, 0, 2)]),
    ((2, 3, 2, 3, 8), (8, 2, 2, 2, 2), [(0, 0, 0, 0, 0), (4, 2, 1, 2, 1), (-4, -1, -1, -1, -1)]),
]


@pytest.mark.parametrize(("shape", "box", "starts"), CASES, ids=[f"{len(c[0])}d" for c in CASES])
def test_loads_fill_boxes_in_order_with_zeros_out_of_bounds(shape: Any, box: Any, starts: Any) -> None:
    array = numbered(shape)
    for start in starts:
        got = load(TensorMap(array, box=box), start, 4 * math.prod(box)).view(np.uint32)
        assert (got == boxed(array, start, box).reshape(-1)).all()


@pytest.mark.parametrize(("shape", "box", "starts"), CASES, ids=[f"{len(c[0])}d" for c in CASES])
def test_stores_change_what_is_in_bounds(shape: Any, box: Any, starts: Any) -> None:
    data = numbered(box[::-1])
    for start in starts:
        array, expected = np.zeros(shape, np.uint32), np.zeros(shape, np.uint32)
        store(TensorMap(array, box=box), start, data)
        for here, there in elements(shape, start, box, [1] * len(box)):
            if there is not None:
                expected[there] = data[here]
        assert (array == expected).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16, ml_dtypes.bfloat16, np.float64, np.int64])
def test_elements_of_every_width(dtype: Any) -> None:
    array = numbered((6, 64), dtype)
    got = load(TensorMap(array, box=(32, 4)), (48, 3), 128 * array.itemsize).view(dtype)
    assert (got == boxed(array, (48, 3), (32, 4)).reshape(-1)).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_floats_out_of_bounds_can_be_nan(dtype: Any) -> None:
    array = np.ones((3, 16), dtype)
    got = load(TensorMap(array, box=(16, 4), fill="nan"), (8, 1), 64 * array.itemsize).view(dtype)
    inside = boxed(array, (8, 1), (16, 4)).reshape(-1) == 1
    assert (np.isnan(got.astype(np.float64)) == ~inside).all()
    assert inside.sum() == 16 and (got[inside] == 1).all()


def test_rows_may_be_longer_than_what_the_map_covers() -> None:
    wide = numbered((8, 40))
    part = wide[2:, 4:24]
    got = load(TensorMap(part, box=(8, 2)), (16, 5), 64).view(np.uint32)
    assert (got == boxed(part, (16, 5), (8, 2)).reshape(-1)).all()


@pytest.mark.parametrize("steps", [(1, 2), (1, 3), (2, 2)])
def test_element_strides_thin_the_box_out(steps: tuple[int, int]) -> None:
    array, box = numbered((20, 40)), (16, 9)
    kept = (1, steps[1])  # the stride of dimension 0 does not count: 16 bytes stay together
    expected = boxed(array, (28, 13), box, kept)
    got = load(TensorMap(array, box=box, element_strides=steps), (28, 13), expected.nbytes).view(np.uint32)
    assert (got == expected.reshape(-1)).all()


def swizzled(rows: np.ndarray, span: int, base: int = 0) -> np.ndarray:
    """Rows of `span` bytes laid out from address `base` on: address bits 4.. ^= as many bits from 7 on."""
    out = np.zeros(rows.size, np.uint8)
    mask = {32: 0x10, 64: 0x30, 128: 0x70}[span]
    for i, value in enumerate(rows.reshape(-1)):
        address = base + i
        out[(address ^ (address >> 3 & mask)) - base] = value
    return out


@pytest.mark.parametrize(("swizzle", "span"), [("32B", 32), ("64B", 64), ("128B", 128)])
def test_swizzles(swizzle: str, span: int) -> None:
    array = np.random.default_rng(span).integers(0, 256, (24, 256)).astype(np.uint8)
    tensor_map, start, box = TensorMap(array, box=(span, 16), swizzle=swizzle), (64, 3), (span, 16)
    rows = boxed(array, start, box)
    assert (load(tensor_map, start, rows.size) == swizzled(rows, span)).all()
    # Boxes need 128 bytes of alignment only: the pattern goes by the address.
    assert (load(tensor_map, start, rows.size, offset=384) == swizzled(rows, span, 384)).all()
    back = np.zeros_like(array)
    store(TensorMap(back, box=box, swizzle=swizzle), start, swizzled(rows, span))
    assert (back[3:19, 64 : 64 + span] == rows).all() and back.sum(dtype=int) == rows.sum(dtype=int)


def test_128_byte_swizzle_permutes_the_chunks_of_a_row_as_documented() -> None:
    array = (np.arange(16 * 8) % 8).astype(np.uint8).repeat(16).reshape(16, 128)
    chunks = load(TensorMap(array, box=(128, 16), swizzle="128B"), (0, 0), 2048).reshape(16, 8, 16)[..., 0]
    table = ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"]
    assert ["".join(map(str, row)) for row in chunks.tolist()] == table * 2


REDUCTIONS = [
    *(("add", t) for t in ("u4", "i4", "u8", "i8", "f2", "bf16", "f4")),
    *((op, t) for op in ("min", "max") for t in ("u4", "i4", "u8", "i8", "f2", "bf16")),
    *((op, "u4") for op in ("inc", "dec")),
    *((op, t) for op in ("and", "or", "xor") for t in ("u4", "i4", "u8", "i8")),
]
APPLY: dict[str, Any] = {
    **{"add": lambda a, b: a + b, "min": np.minimum, "max": np.maximum},
    **{"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
    "inc": lambda old, b: np.where(old >= b, 0, old + 1),
    "dec": lambda old, b: np.where((old == 0) | (old > b), b, old - 1),
}


@pytest.mark.parametrize(("operation", "kind"), REDUCTIONS)
def test_reductions(operation: str, kind: str) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bf16" else kind)
    rng = np.random.default_rng(5)
    low = 0 if dtype.kind == "u" else -9
    array, data = (rng.integers(low, 9, shape).astype(dtype) for shape in ((5, 32), (4, 16)))
    array[0, 16:20] = 0
    expected = array.copy()
    part = expected[1:5, 16:32]
    part[...] = APPLY[operation](part, data).astype(dtype)
    store(TensorMap(array, box=(16, 4)), (16, 1), data, operation)
    assert (array == expected).all()
    # Rows below 0 and beyond the end do not count.
    store(TensorMap(array, box=(16, 4)), (0, 4), data, operation)
    row = expected[4, :16]
    row[...] = APPLY[operation](row, data[0]).astype(dtype)
    assert (array == expected).all()


def test_there_is_no_minimum_of_single_precision() -> None:
    with pytest.raises(Fault, match="no reduction min of float32") as caught:
        store(TensorMap(np.zeros((4, 16), np.float32), box=(16, 4)), (0, 0), numbered((4, 16)), "min")
    assert caught.value.kind == "tensor map"


def test_packed_fp4() -> None:
    array = aligned((6, 128))
    got = load(TensorMap(array, box=(64, 4), elements="b4x16"), (32, 1), 128)
    assert (got.reshape(4, 32) == array[1:5, 16:48]).all()
    padded = load(TensorMap(array, box=(128, 4), elements="b4x16_p64"), (128, 1), 512, expected=256)
    assert (padded.reshape(4, 8, 16)[:, :, :8].reshape(4, 64) == array[1:5, 64:]).all()


def test_packed_fp6() -> None:
    array = aligned((6, 96))
    padded = load(TensorMap(array, box=(128, 4), elements="b6x16_p32"), (0, 1), 512, expected=384)
    assert (padded.reshape(4, 8, 16)[:, :, :12].reshape(4, 96) == array[1:5]).all()


IN_PARAMETERS = """
.version 8.8
.target sm_120a
.address_size 64
.visible .entry kernel(.param .align 64 .b8 map[128], .param .u64 out)
{
    .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<6>;
    .shared .align 128 .b8 tile[128]; .shared .align 8 .b64 bar;
    mov.b64 %rd1, map; cvta.param.u64 %rd2, %rd1; prefetch.tensormap [%rd2];
    mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
    createpolicy.fractional.L2::evict_first.b64 %rd3, 1.0; mov.b32 %r1, 16;
    cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%rd2, {%r1}];
    cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [tile], [%rd2, {%r1}], [bar], %rd3;
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra WAIT;
    ld.shared.u32 %r2, [tile+4]; ld.param.u64 %rd4, [out]; st.global.u32 [%rd4], %r2;
    ret;
}
"""


def test_a_map_among_the_parameters() -> None:
    out = np.zeros(1, np.uint32)
    module = Module(IN_PARAMETERS)
    module["kernel"].launch((1,), (1,), [TensorMap(numbered((64,)), box=(16,)), out])
    assert out[0] == 18
    with pytest.raises(PtxError, match="aligned to 64"):
        Module(IN_PARAMETERS.replace(".align 64 .b8 map", ".align 8 .b8 map"))["kernel"].launch(
            (1,), (1,), [TensorMap(numbered((64,)), box=(16,)), out]
        )


def test_what_the_copy_checks() -> None:
    array, out = numbered((4, 16)), np.zeros(256, np.uint8)
    tensor_map = TensorMap(array, box=(16, 4))

    def fault(kernel: Kernel, *args: Any) -> Fault:
        with pytest.raises(Fault) as caught:
            kernel.launch((1,), (THREADS,), args, spin_limit=2000)
        assert "\n" not in str(caught.value)
        return caught.value

    assert fault(loader((0, 0, 0), 256), tensor_map, out).kind == "tensor map"
    assert fault(loader((0, 0), 256), aligned((128,)), out).kind == "tensor map"
    assert fault(loader((0, 0), 256, offset=64), tensor_map, out).kind == "misaligned"
    assert fault(loader((0, 0), 240), tensor_map, out).kind == "out of bounds"
    # A box that hangs over the edge completes all of its bytes all the same.
    assert fault(loader((8, 2), 256, expected=64), tensor_map, out).kind == "mbarrier misuse"
    assert fault(loader((0, 0), 256, expected=512), tensor_map, out).kind == "mbarrier misuse"


def test_stores_need_a_writable_array() -> None:
    with pytest.raises(Fault) as caught:
        storer((0, 0), 256).launch(
            (1,), (THREADS,), [TensorMap(numbered((4, 16)), box=(16, 4)), numbered((64,))], written=[]
        )
    assert caught.value.kind == "read-only"


def test_other_modes_are_refused_with_their_line() -> None:
    copy = "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r1], [%rd80, {0, 0, 0, 0, 0}], [%r2];"
    with pytest.raises(PtxError, match=r"PTX line \d+.*gather4") as caught:
        assemble(copy)
    assert caught.value.line


FLOATS = np.zeros((8, 64), np.float32)
REFUSED: dict[str, tuple[Any, dict[str, Any]]] = {
    "1 to 5 dimensions": (np.zeros((1, 1, 1, 1, 1, 16), np.float32), {"box": (16, 1, 1, 1, 1, 1)}),
    "one entry for each of 2 dimensions": (FLOATS, {"box": (16,)}),
    "must have 1 to 256 elements": (np.zeros((8, 512), np.uint8), {"box": (512, 1)}),
    "must have 1 to 256 elements a dimension": (FLOATS, {"box": (16, 0)}),
    "exceed the 64B swizzle": (FLOATS, {"box": (32, 4), "swizzle": "64B"}),
    "stride of 36 bytes": (np.zeros((8, 9), np.float32), {"box": (4, 4)}),
    "12 bytes along dimension 0": (FLOATS, {"box": (3, 4)}),
    "not a multiple of 16": (FLOATS[:, 1:], {"box": (4, 4)}),
    "must be contiguous": (FLOATS[:, ::2], {"box": (4, 4)}),
    "must be 1 to 8": (FLOATS, {"box": (4, 4), "element_strides": (1, 9)}),
    "swizzle='256B' is not one of": (FLOATS, {"box": (4, 4), "swizzle": "256B"}),
    "fill='ones' is not one of": (FLOATS, {"box": (4, 4), "fill": "ones"}),
    "interleave='16B' is not one of": (FLOATS, {"box": (4, 4), "interleave": "16B"}),
    "needs a floating-point type, not int32": (FLOATS.view(np.int32), {"box": (4, 4), "fill": "nan"}),
    "elements='b4x16' must be one of": (FLOATS, {"box": (32, 4), "elements": "b4x16"}),
    "needs a box of 128 elements": (aligned((8, 64)), {"box": (64, 4), "elements": "b4x16_p64"}),
    "must be from 1 to 2\\^32": (np.zeros((0, 64), np.float32), {"box": (4, 4)}),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_the_driver_would_refuse(why: str) -> None:
    array, given = REFUSED[why]
    with pytest.raises(PtxError, match=why) as caught:
        TensorMap(array, **given)
    assert str(caught.value).startswith("TensorMap: ") and "\n" not in str(caught.value)
