"""cp.async.bulk.tensor and cp.reduce.async.bulk.tensor: boxes of tensors, by tensor maps, in tile mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import HOST, Array
from gen.ptx.ops.access import GLOBAL, SHARED, classify
from gen.ptx.ops.emit import nothing
from gen.ptx.ops.engine import (
    REDUCTIONS,
    distinct,
    drain_shared,
    fill_shared,
    hints,
    load_global,
    one_by_one,
)
from gen.ptx.ops.mbarrier import barrier_offset, find
from gen.ptx.syntax import Operand, TensorAddress
from gen.ptx.tensormap import MAP_BYTES, UNIT, TensorMap, read_handle

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction
    from gen.ptx.translation import Op

_PLACE_ALIGN = 128
_MAP_ALIGN = 64
_KINDS = {
    **{"uint32": "u32", "int32": "s32", "uint64": "u64", "int64": "s64"},
    **{"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"},
}
Boxes = Callable[["State"], list[tuple[TensorMap, list[int]]]]


def tensor_copy(c: Context, *, prefetches: bool, reduces: bool) -> Op:
    """Loads, stores, reductions and prefetches of boxes."""
    modifiers = c.modifiers
    rank = modifiers.pick("1d", "2d", "3d", "4d", "5d")
    modifiers.flag("tile")
    if not rank:
        raise c.instruction.error("a tensor copy needs its rank, .1d to .5d")
    spaces = tuple(w for w in modifiers.left if w in ("shared::cta", "shared::cluster", "global"))
    modifiers.flag(*spaces)
    if prefetches:
        modifiers.flag("L2", "L2::cache_hint")
        modifiers.done()
        _boxes(c, c.operands[0], int(rank[0]))
        return nothing
    if spaces == ("global", "shared::cta") and modifiers.flag("bulk_group"):
        return _store(c, int(rank[0]), modifiers.pick(*REDUCTIONS) if reduces else "")
    if spaces[1:] == ("global",) and not reduces and modifiers.flag("mbarrier::complete_tx::bytes"):
        return _load(c, int(rank[0]))
    raise c.instruction.error("this form of tensor copy is not implemented; only tile mode is")


def _boxes(c: Context, operand: Operand, rank: int) -> Boxes:
    """The tensor map and the box's first coordinates for each current lane."""
    ins = c.instruction
    if not isinstance(operand, TensorAddress) or len(operand.coordinates) != rank:
        raise ins.error(f"expected [map, {{{rank} coordinates}}]")
    address = c.address(operand.map)
    slots = [c.source(o, "s32") for o in operand.coordinates]

    def boxes(m: State) -> list[tuple[TensorMap, list[int]]]:
        maps = tensor_maps(m, ins, address(m))
        starts = np.stack([m.v["s32"][slot.index][m.sel] for slot in slots], axis=1).tolist()
        for k, (tensor_map, start) in enumerate(zip(maps, starts, strict=True)):
            if tensor_map.rank != rank:
                m.fault("tensor map", ins, k, f"a {rank}-dimensional copy by a map of rank {tensor_map.rank}")
            unit = tensor_map.alignment
            if start[0] % unit:
                m.fault(
                    "misaligned",
                    ins,
                    k,
                    f"coordinate {start[0]} along dimension 0 is not a multiple of {unit} elements; boxes "
                    "start at multiples of 16 bytes of a row",
                )
        return list(zip(maps, starts, strict=True))

    return boxes


def tensor_maps(m: State, ins: Instruction, address: Array) -> list[TensorMap]:
    """The maps at generic addresses, one a current lane."""
    kinds = classify(m, address)
    if kinds != GLOBAL:
        m.fault("tensor map", ins, 0, "a tensor map must be in .param, .const or global memory")
    for half in range(0, MAP_BYTES, _MAP_ALIGN):
        m.memory.check(m, ins, address + half, _MAP_ALIGN, read=True, write=False)
    known: dict[int, TensorMap] = {}
    out = []
    for k, at in enumerate(address.tolist()):
        if at not in known:
            number = read_handle(HOST.load(np.arange(at, at + MAP_BYTES, 8), 8))
            if number is None:
                m.fault(
                    "tensor map",
                    ins,
                    k,
                    f"the {MAP_BYTES} bytes at {at:#x} are no tensor map; pass a TensorMap as that argument",
                )
            known[at] = m.memory.tensor_maps[number]
        out.append(known[at])
    return out


def _load(c: Context, rank: int) -> Op:
    """[dst], [map, coordinates], [mbar] and hints."""
    ins = c.instruction
    check = hints(c, c.operands[3:])
    c.modifiers.done()
    destination, bar = c.address(c.operands[0]), c.address(c.operands[2])
    boxes = _boxes(c, c.operands[1], rank)

    def run(m: State) -> None:
        check(m)
        where, found = destination(m), boxes(m)
        barriers = find(m, ins, barrier_offset(m, ins, SHARED, bar(m)))
        for k, row in one_by_one(m):
            tensor_map, start = found[k]
            _aligned(m, ins, int(where[k]))
            units = _gather(m, ins, tensor_map, start).reshape(-1).view(np.uint32).reshape(-1, 4)
            places = tensor_map.place(int(where[k]))
            fill_shared(m, ins, places, list(units.T), barriers[k], row, tensor_map.transaction_bytes)

    return run


def _gather(m: State, ins: Instruction, tensor_map: TensorMap, start: list[int]) -> Array:
    """The box's bytes as they will lie in shared memory but for the swizzle, uint8 [rows, row bytes]."""
    addresses, inside, size = tensor_map.walk(start)
    packing = tensor_map.packing
    spread = size if packing.stored == packing.spread else packing.spread
    out = np.empty((*addresses.shape, spread), np.uint8)
    if not inside.all() or spread > size:
        out.reshape(-1, packing.spread)[...] = tensor_map.out_of_bounds()
    width = min(size & -size, 8)
    words = addresses[inside][:, None] + np.arange(0, size, width)
    loaded = load_global(m, ins, words.reshape(-1), width).view(np.uint8).reshape(-1, size)
    out[inside, :size] = loaded
    return out.reshape(len(addresses), -1)


def _store(c: Context, rank: int, operation: str) -> Op:
    """[map, coordinates], [src] and hints."""
    ins = c.instruction
    hints(c, c.operands[2:])
    c.modifiers.done()
    source, boxes = c.address(c.operands[1]), _boxes(c, c.operands[0], rank)
    c.translation.global_widths.add(1)  # boxes may meet at any element

    def run(m: State) -> None:
        where, found = source(m), boxes(m)
        orders = [(id(box), *start, at) for (box, start), at in zip(found, where.tolist(), strict=True)]
        for k in distinct(m, ins, orders, adds=bool(operation)):
            tensor_map, start = found[k]
            _aligned(m, ins, int(where[k]))
            reduction = _reduction(m, ins, tensor_map, operation) if operation else None
            if tensor_map.packing.spread != tensor_map.packing.stored:
                m.fault("tensor map", ins, 0, "stores by maps of padded elements are not implemented")
            addresses, inside, width = tensor_map.walk(start, words=not operation)
            if not operation:  # whole units are written, beyond a size that is no multiple of 16 bytes too
                units = inside.reshape(len(inside), -1, UNIT // width).any(-1)
                inside = units.repeat(UNIT // width, axis=1)

            def arrange(units: Array, inside: Array = inside, width: int = width) -> Array:
                words: Array = units.reshape(-1).view(f"u{width}").reshape(inside.shape)
                return words[inside]

            places = tensor_map.place(int(where[k]))
            drain_shared(m, ins, places, addresses[inside], width, arrange, reduction)

    return run


def _reduction(m: State, ins: Instruction, tensor_map: TensorMap, operation: str) -> tuple[str, str]:
    kind = _KINDS.get(tensor_map.kind, "")
    if kind not in REDUCTIONS[operation]:
        m.fault("tensor map", ins, 0, f"there is no reduction {operation} of {tensor_map.kind} elements")
    return operation, kind


def _aligned(m: State, ins: Instruction, address: int) -> None:
    if address % _PLACE_ALIGN:
        m.fault(
            "misaligned",
            ins,
            0,
            f"shared address {address:#x} of a box is not a multiple of {_PLACE_ALIGN}",
            m.shared_access(address, UNIT),
        )
