"""Shares register arrays between PTX registers that are never live together.

PTX is in near-SSA form with thousands of registers, a few hundred of them live at once. Fewer arrays mean
that those of a batch of blocks stay in cache.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from gen.ptx.translation import WIDTH_CLASSES, Slot

if TYPE_CHECKING:
    from gen.ptx.translation import Flow, Translation


def share_registers(translation: Translation) -> tuple[dict[Slot, Slot], dict[str, int]]:
    """(new slot of each register, arrays needed of each width), by linear scan over live intervals.

    An interval spans all positions, in code order, at which a register may be live, so registers with
    disjoint intervals can share an array whatever way a thread takes.
    """
    intervals = _intervals(translation)
    counts = dict.fromkeys(WIDTH_CLASSES, 0)
    free: dict[str, list[int]] = {width: [] for width in WIDTH_CLASSES}
    active: list[tuple[int, str, int]] = []
    mapping: dict[Slot, Slot] = {}
    for slot, (start, end) in sorted(intervals.items(), key=lambda item: item[1]):
        while active and active[0][0] < start:
            _, width, index = heapq.heappop(active)
            heapq.heappush(free[width], index)
        if free[slot.view]:
            index = heapq.heappop(free[slot.view])
        else:
            index = counts[slot.view]
            counts[slot.view] += 1
        mapping[slot] = Slot(slot.view, index)
        heapq.heappush(active, (end, slot.view, index))
    return mapping, counts


def _intervals(translation: Translation) -> dict[Slot, tuple[int, int]]:
    flows = translation.flows
    guarded = [placed.instruction.predicate is not None for placed in translation.program.code]
    blocks = _blocks(flows, translation.program.leaders)
    names = sorted({s for f in flows for s in (*f.reads, *f.writes)}, key=lambda s: (s.view, s.index))
    number = {slot: i for i, slot in enumerate(names)}
    live_in = _live_in(flows, guarded, blocks, number)
    start: dict[int, int] = {}
    end: dict[int, int] = {}

    def touch(register: int, position: int) -> None:
        start[register] = min(start.get(register, position), position)
        end[register] = max(end.get(register, position), position)

    for first, last in blocks:
        for register in _members(live_in[first]):
            touch(register, first)
        for successor in flows[last].successors:
            for register in _members(live_in.get(successor, 0)):
                touch(register, last)
        for position in range(first, last + 1):
            for slot in (*flows[position].reads, *flows[position].writes):
                touch(number[slot], position)
    return {slot: (start[i], end[i]) for slot, i in number.items()}


def _blocks(flows: list[Flow], leaders: set[int]) -> list[tuple[int, int]]:
    """(first, last) positions of straight runs."""
    starts = {0, *leaders}
    for position, flow in enumerate(flows):
        if flow.successors != [position + 1]:
            starts |= {position + 1, *flow.successors}
    ordered = sorted(p for p in starts if p < len(flows))
    return [(a, b - 1) for a, b in zip(ordered, [*ordered[1:], len(flows)], strict=True)]


def _live_in(
    flows: list[Flow], guarded: list[bool], blocks: list[tuple[int, int]], number: dict[Slot, int]
) -> dict[int, int]:
    """Registers live at the start of each block, as bit sets, by the usual backward iteration."""
    uses: dict[int, int] = {}
    kills: dict[int, int] = {}
    for first, last in blocks:
        use = kill = 0
        for position in range(first, last + 1):
            for slot in flows[position].reads:
                use |= 1 << number[slot] & ~kill
            if not guarded[position]:  # a guarded write leaves the old value in some threads
                for slot in flows[position].writes:
                    kill |= 1 << number[slot]
        uses[first], kills[first] = use, kill
    live = dict.fromkeys(uses, 0)
    changed = True
    while changed:
        changed = False
        for first, last in reversed(blocks):
            out = 0
            for successor in flows[last].successors:
                out |= live.get(successor, 0)
            now = uses[first] | (out & ~kills[first])
            if now != live[first]:
                live[first], changed = now, True
    return live


def _members(bits: int) -> list[int]:
    """Positions of the set bits."""
    out = []
    while bits:
        low = bits & -bits
        out.append(low.bit_length() - 1)
        bits ^= low
    return out
