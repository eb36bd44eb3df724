"""Clusters of 1×1×1 blocks: addresses of other blocks' shared memory, and the cluster's barrier."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gen.ptx.syntax import Immediate

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.lanes import Lanes
    from gen.ptx.state import State
    from gen.ptx.translation import Op


def map_address(c: Context) -> Op:
    """mapa d, a, rank: `a` as an address in the block of that rank, which can only be this one."""
    c.need(3)
    c.modifiers.flag("shared::cluster")
    kind = c.modifiers.type()
    c.modifiers.done()
    d, a = c.destination(c.operands[0], kind), c.source(c.operands[1], kind)
    rank, ins = c.source(c.operands[2], "u32"), c.instruction

    def run(m: State) -> None:
        ranks = m.v["u32"][rank.index][m.sel]
        if ranks.any():
            k = int(np.flatnonzero(ranks)[0])
            m.fault("out of bounds", ins, k, f"block {int(ranks[k])} of a cluster that has only block 0")
        m.v[d.view][d.index][m.sel] = m.v[a.view][a.index][m.sel]

    return run


def get_rank(c: Context) -> Op:
    """getctarank: 0 for every shared address."""
    d = c.destination(c.operands[0], "u32").index
    if not isinstance(c.operands[1], Immediate):
        c.register(c.operands[1])

    def run(m: State) -> None:
        m.v["u32"][d][m.sel] = 0

    return run


def cluster_barrier(c: Context) -> Callable[[State, Lanes], None]:
    """What barrier.cluster.arrive and .wait do with lanes; the caller splits off those that skip it."""
    modifiers = c.modifiers
    modifiers.flag("release", "acquire", "relaxed")
    action = modifiers.pick("arrive", "wait")
    modifiers.done()
    ins, position = c.instruction, c.position

    def arrive(m: State, lanes: Lanes) -> None:
        m.cluster_barriers.arrive(m, ins)
        m.ready(position + 1, lanes)

    def wait(m: State, lanes: Lanes) -> None:
        over = m.cluster_barriers.passed(m, ins)
        if over.any():
            m.ready(position + 1, lanes.where(over))
        if not over.all():
            m.ready(position, lanes.where(~over))

    if action == "arrive":
        return arrive
    c.translation.spinning.add(position)
    c.flow.successors = [position, position + 1]
    return wait


TABLE: dict[str, Callable[[Context], Op]] = {"mapa": map_address, "getctarank": get_rank}
