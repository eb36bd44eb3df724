"""Exchange between the lanes of a warp: shfl, vote, match, redux, elect, activemask."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.syntax import Name, Operand

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.translation import Op


def _member_mask(c: Context, operand: Operand) -> None:
    """Tells the machine which lanes must be here together."""
    source = c.source(operand, "u32")
    c.translation.sync_masks[c.position] = lambda m: m.v["u32"][source.index][m.sel]


def shuffle(c: Context) -> Op:
    """shfl.sync d[|p], a, b, c, membermask."""
    c.need(5)
    modifiers = c.modifiers
    modifiers.flag("sync", "b32")
    mode = modifiers.pick("up", "down", "bfly", "idx")
    modifiers.done()
    _member_mask(c, c.operands[4])
    targets = c.vector(c.operands[0])
    d = c.destination(targets[0], "b32").index
    p = c.destination(targets[1], "pred").index if len(targets) > 1 else None
    a, b, control = (c.source(o, "b32").index for o in c.operands[1:4])

    def run(m: State) -> None:
        v, s = m.v["u32"], m.sel
        lanes = m.lanes.ids
        lane = lanes & 31
        by = v[b][s].astype(np.int64) & 31
        segments = v[control][s].astype(np.int64)
        clamp, segment = segments & 31, segments >> 8 & 31
        low = lane & segment
        high = low | (clamp & ~segment)
        if mode == "up":
            source = lane - by
            valid = source >= high
        elif mode == "down":
            source = lane + by
            valid = source <= high
        elif mode == "bfly":
            source = lane ^ by
            valid = source <= high
        else:
            source = low | (by & ~segment)
            valid = source <= high
        v[d][s] = v[a][np.where(valid, lanes - lane + source, lanes)]
        if p is not None:
            m.v["pred"][p][s] = valid

    return run


def _warp_bits(m: State, values: Array) -> tuple[Array, Array]:
    """Ballots: (bits set where `values` holds, bits of the current lanes), both one word a current lane."""
    lanes = m.lanes.ids
    warp, bit = lanes >> 5, np.uint32(1) << (lanes & 31).astype(np.uint32)
    first = int(warp[0])
    count = int(warp[-1]) - first + 1
    votes = np.bincount(warp - first, np.where(values, bit, 0), count).astype(np.uint32)
    present = np.bincount(warp - first, bit, count).astype(np.uint32)
    return votes[warp - first], present[warp - first]


_VOTES: dict[str, Callable[[Array, Array], Array]] = {
    "ballot": lambda votes, members: votes,
    "all": lambda votes, members: votes == members,
    "any": lambda votes, members: votes != 0,
    "uni": lambda votes, members: (votes == members) | (votes == 0),
}


def vote(c: Context) -> Op:
    """vote.sync.all/.any/.uni/.ballot."""
    c.need(3)
    modifiers = c.modifiers
    modifiers.flag("sync")
    mode = modifiers.pick("all", "any", "uni", "ballot")
    modifiers.types()
    modifiers.done()
    _member_mask(c, c.operands[2])
    mask = c.source(c.operands[2], "u32")
    if not isinstance(c.operands[1], Name):
        raise c.instruction.error("the voted operand must be a predicate")
    index, negated = c.predicate(c.operands[1])
    d = c.destination(c.operands[0], "u32" if mode == "ballot" else "pred")

    def run(m: State) -> None:
        s = m.sel
        votes, present = _warp_bits(m, m.v["pred"][index][s] ^ negated)
        members = present & m.v["u32"][mask.index][s]
        votes &= members
        m.v[d.view][d.index][s] = _VOTES[mode](votes, members)

    return run


def active_mask(c: Context) -> Op:
    """activemask."""
    c.need(1)
    d = c.destination(c.operands[0], "u32")

    def run(m: State) -> None:
        m.v["u32"][d.index][m.sel] = _warp_bits(m, np.ones(m.n, bool))[1]

    return run


def elect(c: Context) -> Op:
    """elect.sync d|p, membermask: the lowest lane of the mask."""
    c.need(2)
    _member_mask(c, c.operands[1])
    mask = c.source(c.operands[1], "u32")
    targets = c.vector(c.operands[0])
    d, p = c.destination(targets[0], "u32"), c.destination(targets[1], "pred")

    def run(m: State) -> None:
        s = m.sel
        members = _warp_bits(m, np.ones(m.n, bool))[1] & m.v["u32"][mask.index][s]
        leader = np.log2((members & (~members + np.uint32(1))).astype(np.float64)).astype(np.uint32)
        m.v["u32"][d.index][s] = leader
        m.v["pred"][p.index][s] = leader == (m.lanes.ids & 31)

    return run


def _tile(m: State, values: Array) -> tuple[Array, Array, Array]:
    """(values [warps, 32], which are present [warps, 32], the position of each current lane in them)."""
    lanes = m.lanes.ids
    first = int(lanes[0]) & ~31
    shape = ((int(lanes[-1]) | 31) + 1 - first) // 32, 32
    table, present = np.zeros(shape, values.dtype), np.zeros(shape, bool)
    table.reshape(-1)[lanes - first] = values
    present.reshape(-1)[lanes - first] = True
    return table, present, lanes - first


def match(c: Context) -> Op:
    """match.any.sync and match.all.sync[d|p]."""
    c.need(3)
    modifiers = c.modifiers
    modifiers.flag("sync")
    mode, kind = modifiers.pick("any", "all"), modifiers.type()
    modifiers.done()
    _member_mask(c, c.operands[2])
    source, mask = c.source(c.operands[1], kind), c.source(c.operands[2], "u32")
    targets = c.vector(c.operands[0])
    d = c.destination(targets[0], "u32")
    p = c.destination(targets[1], "pred").index if len(targets) > 1 else None

    def run(m: State) -> None:
        s = m.sel
        table, present, at = _tile(m, m.v[source.view][source.index][s])
        members, _, _ = _tile(m, m.v["u32"][mask.index][s])
        bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
        inside = (members[:, :, None] & bits > 0) & present[:, None, :]
        equal = (table[:, :, None] == table[:, None, :]) & inside
        found = np.where(equal, bits, 0).sum(-1).astype(np.uint32)
        everyone = (equal == inside).all(-1)
        if mode == "all":
            found = np.where(everyone, found, np.uint32(0))
        m.v["u32"][d.index][s] = found.reshape(-1)[at]
        if p is not None:
            m.v["pred"][p][s] = everyone.reshape(-1)[at]

    return run


_REDUCTIONS: dict[str, np.ufunc] = {
    **{"add": np.add, "min": np.minimum, "max": np.maximum},
    **{"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
}


def reduce(c: Context) -> Op:
    """redux.sync of 32-bit integers, and min and max of f32."""
    c.need(3)
    modifiers = c.modifiers
    modifiers.flag("sync")
    name, kind = modifiers.pick(*_REDUCTIONS), modifiers.type()
    absolute, nan = modifiers.flag("abs"), modifiers.flag("NaN")
    modifiers.done()
    kind = "u32" if kind == "b32" else kind
    _member_mask(c, c.operands[2])
    d, source, mask = (
        c.destination(c.operands[0], kind),
        c.source(c.operands[1], kind),
        c.source(c.operands[2], "u32"),
    )
    ufunc: np.ufunc = _REDUCTIONS[name]
    if kind == "f32" and not nan:
        ufunc = np.fmin if name == "min" else np.fmax

    def run(m: State) -> None:
        s = m.sel
        values = m.v[source.view][source.index][s]
        table, present, at = _tile(m, np.abs(values) if absolute else values)
        members, _, _ = _tile(m, m.v["u32"][mask.index][s])
        result = np.zeros_like(table)
        for row, (word, here, masks) in enumerate(zip(table, present, members, strict=True)):
            for member in np.unique(masks[here]):
                inside = here & (np.uint32(member) >> np.arange(32, dtype=np.uint32) & 1 > 0)
                result[row, inside] = ufunc.reduce(word[inside])
        m.v[d.view][d.index][s] = result.reshape(-1)[at]

    return run


TABLE: dict[str, Callable[[Context], Op]] = {
    **{
        "shfl": shuffle,
        "vote": vote,
        "activemask": active_mask,
        "elect": elect,
        "match": match,
        "redux": reduce,
    },
}
