"""Branches, exits and barriers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.lanes import Lanes
from gen.ptx.ops.cluster import cluster_barrier
from gen.ptx.ops.emit import nothing
from gen.ptx.sync import Resumption
from gen.ptx.syntax import Immediate, Name, Operand

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.state import State
    from gen.ptx.translation import Op


def _split(c: Context, taken: Callable[[State, Lanes], None], otherwise: int) -> Op:
    """`taken` for the lanes whose guard holds, position `otherwise` for the rest."""
    guard = c.instruction.predicate
    if guard is None:
        return lambda m: taken(m, m.lanes)
    index, negated = c.predicate(guard)

    def run(m: State) -> None:
        lanes = m.lanes
        mask = m.v["pred"][index][m.sel]
        if negated:
            mask = ~mask
        count = int(np.count_nonzero(mask))
        if count == lanes.count:
            taken(m, lanes)
        elif count == 0:
            m.ready(otherwise, lanes)
        else:
            m.ready(otherwise, lanes.where(~mask))
            rest = lanes.where(mask)
            m.select(rest)
            taken(m, rest)

    return run


def _leads_to(c: Context, *targets: int) -> None:
    """Where the instruction goes; a guarded one may also go on."""
    c.flow.successors = [*targets, *([c.position + 1] if c.instruction.predicate else [])]


def bra(c: Context) -> Op:
    """bra, conditional or not."""
    c.need(1)
    c.modifiers.flag("uni")
    c.modifiers.done()
    target = c.translation.program.label(c.placed, c.operands[0])
    _leads_to(c, target)
    return _split(c, lambda m, lanes: m.ready(target, lanes), c.position + 1)


def brx(c: Context) -> Op:
    """brx.idx through a .branchtargets table."""
    c.need(2)
    c.modifiers.flag("uni", "idx")
    c.modifiers.done()
    operand = c.operands[1]
    names = c.placed.frame.function.tables.get(operand.text) if isinstance(operand, Name) else None
    if names is None:
        raise c.instruction.error("no such branch table")
    targets = [c.translation.program.label(c.placed, Name(name)) for name in names]
    source, ins = c.source(c.operands[0], "u32"), c.instruction
    _leads_to(c, *targets)

    def taken(m: State, lanes: Lanes) -> None:
        which = m.v["u32"][source.index][m.sel]
        if which.max() >= len(targets):
            m.fault(
                "out of bounds",
                ins,
                int(which.argmax()),
                f"branch index {int(which.max())} of {len(targets)}",
            )
        for i in np.unique(which):
            m.ready(targets[int(i)], lanes.where(which == i))

    return _split(c, taken, c.position + 1)


def ret(c: Context) -> Op:
    """ret: to the caller, or out of the kernel."""
    c.modifiers.flag("uni")
    back = c.placed.frame.returns_to
    if back is None or c.instruction.opcode == "exit":
        _leads_to(c)
        return _split(c, _exit, c.position + 1)
    _leads_to(c, back)
    return _split(c, lambda m, lanes: m.ready(back, lanes), c.position + 1)


def _exit(m: State, lanes: Lanes) -> None:
    m.bulk_groups.on_exit(m, lanes)
    m.live[m.sel] = False
    m.progress()
    m.barriers.on_exit(m)
    m.cluster_barriers.check(m)


def trap(c: Context) -> Op:
    """trap: the kernel's own assertion."""
    ins = c.instruction
    _leads_to(c)

    def taken(m: State, lanes: Lanes) -> None:
        m.fault(
            "trap", ins, 0, "the kernel stopped itself; look for the assertion or unreachable code it guards"
        )

    return _split(c, taken, c.position + 1)


def _lane_values(c: Context, operand: Operand) -> Callable[[State], Array]:
    """Barrier ids and counts: a literal or a register, int64 a lane."""
    if isinstance(operand, Immediate):
        value = operand.bits
        return lambda m: np.full(m.n, value, np.int64)
    source = c.source(operand, "u32")
    return lambda m: m.v["u32"][source.index][m.sel].astype(np.int64)


def barrier(c: Context) -> Op:
    """bar and barrier: sync, arrive, red; bar.warp.sync."""
    modifiers = c.modifiers
    aligned = modifiers.flag("aligned") or c.instruction.opcode == "bar"
    modifiers.flag("cta")
    if c.instruction.opcode == "barrier" and modifiers.flag("cluster"):
        return _split(c, cluster_barrier(c), c.position + 1)
    if modifiers.flag("warp"):
        source = c.source(c.operands[0], "u32")
        c.translation.sync_masks[c.position] = lambda m: m.v["u32"][source.index][m.sel]
        return nothing  # the machine makes the lanes of a warp meet; their accesses are ordered anyway
    action = modifiers.pick("sync", "arrive", "red")
    if action == "red":
        return _reduction(c, aligned)
    modifiers.done()
    c.need(1, 2)
    return _arrival(c, list(c.operands), None, waits=action == "sync", aligned=aligned)


def _arrival(
    c: Context,
    operands: list[Operand],
    on_release: Callable[[State, Lanes, Array], None] | None,
    *,
    waits: bool,
    aligned: bool,
    before: Callable[[State], None] | None = None,
) -> Op:
    ids = _lane_values(c, operands[0])
    counts = _lane_values(c, operands[1]) if len(operands) > 1 else (lambda m: np.zeros(m.n, np.int64))
    ins, following = c.instruction, c.position + 1
    resumption = Resumption(following, ins, aligned, on_release) if waits else None

    def taken(m: State, lanes: Lanes) -> None:
        if before:
            before(m)
        m.barriers.arrive(m, ins, ids(m), counts(m), resumption)
        if not waits:
            m.ready(following, lanes)

    return _split(c, taken, following)


def _reduction(c: Context, aligned: bool) -> Op:
    """bar.red.popc/.and/.or d, id[, count], p: every participant gets the reduction of p over all of them."""
    kind = c.modifiers.pick("popc", "and", "or")
    c.modifiers.types()
    c.modifiers.done()
    c.need(3, 4)
    *operands, last = c.operands[1:]
    if not isinstance(last, Name):
        raise c.instruction.error("the reduced operand must be a predicate")
    index, negated = c.predicate(last)
    d = c.destination(c.operands[0], "u32" if kind == "popc" else "pred")

    def before(m: State) -> None:
        m.barriers.flags[m.sel] = m.v["pred"][index][m.sel] ^ negated

    def on_release(m: State, lanes: Lanes, released: Array) -> None:
        block = m.block_of[released]
        votes = np.bincount(block, m.barriers.flags[released], m.blocks)
        total = np.bincount(block, minlength=m.blocks)
        mine = m.block_of[lanes.index]
        if kind == "popc":
            m.v["u32"][d.index][lanes.index] = votes[mine].astype(np.uint32)
        else:
            result = votes == total if kind == "and" else votes > 0
            m.v["pred"][d.index][lanes.index] = result[mine]

    return _arrival(c, operands, on_release, waits=True, aligned=aligned, before=before)


def spin(c: Context) -> Op:
    """nanosleep: marks code that waits for other threads."""
    c.translation.spinning.add(c.position)
    return nothing


TABLE: dict[str, Callable[[Context], Op]] = {
    **{"bra": bra, "brx": brx, "ret": ret, "exit": ret, "trap": trap},
    **{"bar": barrier, "barrier": barrier, "nanosleep": spin},
}
