"""Tiles, shared memory and launches of sparse-MLA decode."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gen.device import Device
from gen.families.sparse_mla_decode.options import Combine, Layout, LseEmpty
from gen.plan import (
    SHARED_BYTES_PER_BLOCK,
    Launch,
    LaunchPlan,
    Scratch,
    SharedBuffer,
    TilePlan,
    plan_splits,
    refuse_oversized,
    shared_bytes,
)
from gen.values import SplitWord

if TYPE_CHECKING:
    from gen.families.sparse_mla_decode.spec import Spec

TEMPLATE = "sparse_mla_decode.py.j2"
COMBINE_HEADS, COMBINE_THREADS = 4, 128
"""Heads and threads of a block of the merging kernel: 16 fp32 accumulators a thread."""

MAX_ACCUMULATORS = 128
"""fp32 accumulators a thread may hold of its 255 registers before the compiler spills."""

MAX_GATHERS = 16
"""8-byte vectors of `v4` values that a thread may gather a tile: at 28, TileLang 0.1.15 fails to compile."""

LSE_EMPTY = {
    LseEmpty.PLUS_INF: 'T.infinity("float32")',
    LseEmpty.MINUS_INF: '-T.infinity("float32")',
    LseEmpty.MINUS_1E30: "-1e30",
}


def combine(spec: Spec) -> str:
    """Who merges: `none` where the keys are not split, else `kernel` or `last_block`."""
    return "none" if spec.split is SplitWord.NONE else spec.features.combine.value


def head_blocks(spec: Spec) -> int:
    """Blocks that share the heads of a token."""
    return math.ceil(spec.shapes.heads / spec.tile.heads)


def caches(spec: Spec) -> tuple[str, ...]:
    """Names of the caches, in the order in which their keys are visited."""
    return ("main", "extra") if spec.shapes.extra_page is not None else ("main",)


def _buffers(spec: Spec, heads: int, keys: int) -> tuple[SharedBuffer, ...]:
    layout, threads = spec.layout, spec.tile.threads
    planar = layout is Layout.V4
    buffers = [
        SharedBuffer("q_tile", (heads, layout.d_v), 2),
        SharedBuffer("latent", (keys, layout.d_v), 2),
        SharedBuffer("p_tile", (heads, keys), 2),
        SharedBuffer("key_vector", (keys,), 8),
        SharedBuffer("key_bias", (keys,), 4),
        SharedBuffer("scale", (keys, 8 if planar else layout.scales), 4),
        SharedBuffer("factor", (heads,), 4),
        # TileLang reduces a row over warps through these, one for the maximum and one for the sum.
        SharedBuffer("reduce_max", (threads,), 4),
        SharedBuffer("reduce_sum", (threads,), 4),
    ]
    if planar:
        buffers.append(SharedBuffer("scale_vector", (keys,), 8))
    else:
        buffers += [
            SharedBuffer("q_rope", (heads, layout.d_rope), 2),
            SharedBuffer("rope", (keys, layout.d_rope), 2),
        ]
    if combine(spec) == Combine.LAST_BLOCK.value:
        buffers.append(SharedBuffer("is_last", (1,), 4))
    return tuple(buffers)


def plan(spec: Spec) -> TilePlan:
    """The block of a spec. Raises SpecError where it cannot work, with the nearest setting that does."""
    tile, layout = spec.tile, spec.layout
    buffers = _buffers(spec, tile.heads, tile.keys)
    fitting = [
        (heads, keys)
        for heads in (64, 32, 16)
        for keys in (128, 64, 32, 16)
        if heads <= tile.heads
        and keys <= tile.keys
        and shared_bytes(_buffers(spec, heads, keys)) <= SHARED_BYTES_PER_BLOCK
    ]
    heads, keys = max(fitting, key=lambda fit: (fit[0] * fit[1], fit[0]))
    refuse_oversized(spec, buffers, "tile", f"use heads: {heads} and keys: {keys}")
    warps, most = tile.threads // 32, tile.heads // 16 * (tile.keys // 8)
    if warps > most:
        raise spec.error(
            "tile.threads",
            f"{warps} warps cannot share the {most} fragments of 16×8 in {tile.heads}×{tile.keys} scores",
            f"use {most * 32} threads" if most >= 4 else f"use keys: {tile.keys * 4 // most}",
        )
    accumulators = tile.heads * layout.d_v // tile.threads
    if accumulators > MAX_ACCUMULATORS:
        raise spec.error(
            "tile.threads",
            f"each thread would hold {accumulators} accumulators, more than {MAX_ACCUMULATORS}, and spill",
            f"use {tile.threads * accumulators // MAX_ACCUMULATORS} threads",
        )
    gathers = tile.keys * layout.d_nope // 8 // tile.threads
    if layout is Layout.V4 and gathers > MAX_GATHERS:
        raise spec.error(
            "tile.threads",
            f"each thread would gather {gathers} vectors of a tile, more than the {MAX_GATHERS} that compile",
            f"use {tile.threads * 2} threads",
        )
    return TilePlan(
        template=TEMPLATE,
        kernels=("decode", "combine") if combine(spec) == "kernel" else ("decode",),
        buffers=buffers,
        threads=tile.threads,
        context=_context(spec),
    )


def _context(spec: Spec) -> dict[str, object]:
    shapes, layout = spec.shapes, spec.layout
    planar = layout is Layout.V4
    ragged = shapes.heads % spec.tile.heads != 0

    def cache(name: str) -> dict[str, object]:
        page, width = getattr(shapes, f"{name}_page"), getattr(shapes, f"{name}_width")
        width_text = width if isinstance(width, int) else f"{name}_width"
        return {
            "name": name,
            "page": page if isinstance(page, int) else f"{name}_page",
            "page_is_run_time": not isinstance(page, int),
            "width": width_text,
            "length": f"{name}_length" if spec.features.lengths else width_text,
            "width_is_run_time": not isinstance(width, int),
        }

    return {
        "heads": shapes.heads,
        "head_blocks": head_blocks(spec),
        "ragged_heads": ragged,
        "scratch_heads": "PADDED_HEADS" if ragged else "HEADS",
        "tokens": shapes.tokens if isinstance(shapes.tokens, int) else "tokens",
        "tokens_are_run_time": not isinstance(shapes.tokens, int),
        "caches": [cache(name) for name in caches(spec)],
        "layout": layout,
        "planar": planar,
        "scale_slots": 8 if planar else layout.scales,
        "rope_byte": layout.d_nope + (0 if planar else 4 * layout.scales),
        "tile": spec.tile,
        "features": spec.features,
        "sink": spec.features.sink.value,
        "lse_base": spec.features.lse_base.value,
        "lse_empty": LSE_EMPTY[spec.features.lse_empty],
        "combine": combine(spec),
        "combine_heads": COMBINE_HEADS,
        "combine_threads": COMBINE_THREADS,
    }


def launch_plan(
    spec: Spec, sizes: Mapping[str, int], device: Device, splits: int | None = None
) -> LaunchPlan:
    """The launches for run-time sizes (`tokens`, and each cache's `page` and `width`) on a device.

    `splits` overrides the spec's strategy where the keys are split at all.

    The lengths of the tokens are device data, so the plan counts on full widths; blocks past a token's last
    tile end at once.
    """
    tile_plan = plan(spec)
    tokens, blocks = sizes["tokens"], head_blocks(spec)
    tiles = sum(math.ceil(sizes[f"{name}_width"] / spec.tile.keys) for name in caches(spec))
    strategy = spec.split if splits is None or combine(spec) == "none" else splits
    slots = device.sms * device.blocks_per_sm(spec.tile.threads, tile_plan.shared_bytes)
    divided = plan_splits(strategy, tiles=tiles, rows=tokens * blocks, slots=slots)
    launches = [Launch("decode", (tokens, blocks, divided.count), spec.tile.threads)]
    scratch = {}
    if combine(spec) != "none":
        rows = (tokens, divided.count, blocks * spec.tile.heads)
        scratch = {
            "partial_out": Scratch((*rows, spec.layout.d_v), "float32"),
            "partial_max": Scratch(rows, "float32"),
            "partial_sum": Scratch(rows, "float32"),
        }
    if combine(spec) == "kernel":
        launches.append(Launch("combine", (tokens, spec.shapes.heads // COMBINE_HEADS, 1), COMBINE_THREADS))
    if combine(spec) == "last_block":
        scratch["arrivals"] = Scratch((tokens, blocks), "int32", zeroed=True)
    scalars: dict[str, int | float] = dict(sizes)
    scalars |= {"splits": divided.count, "tiles_per_split": divided.tiles_per_split}
    return LaunchPlan(divided, tuple(launches), scalars, scratch)
