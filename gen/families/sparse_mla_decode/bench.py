"""What `kgen bench` measures of sparse-MLA decode, and an engine-like Triton kernel beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch

from gen.check.case import Inputs, Tensors
from gen.families.sparse_mla_decode.cache import quantize, store
from gen.families.sparse_mla_decode.options import Layout, Sink
from gen.families.sparse_mla_decode.plan import caches
from gen.values import bounds

if TYPE_CHECKING:
    from gen.families.sparse_mla_decode.spec import Spec

TOKENS = (1, 4, 16, 64, 128)
CACHE_KEYS = 1 << 18
"""Keys in each cache: 153 MB, more than any L2 holds."""


def bench_sizes(spec: Spec) -> list[dict[str, int]]:
    """Decode batches at up to 512 keys a cache; `v4` only, which the baseline reads."""
    if spec.layout is not Layout.V4:
        return []
    sizes = {}
    for name in caches(spec):
        sizes[f"{name}_page"] = bounds(getattr(spec.shapes, f"{name}_page"))[1]
        sizes[f"{name}_width"] = min(bounds(getattr(spec.shapes, f"{name}_width"))[1], 512)
    return [{"tokens": tokens, **sizes} for tokens in TOKENS]


def bench_bytes(spec: Spec, sizes: Mapping[str, int]) -> int:
    """Bytes of q, of the listed keys with their indices, and of out."""
    keys = sum(sizes[f"{name}_width"] for name in caches(spec))
    row = spec.shapes.heads * 2 * (spec.layout.d_qk + spec.layout.d_v)
    return sizes["tokens"] * (row + keys * (spec.layout.token_bytes + 4))


def bench_inputs(spec: Spec, sizes: Mapping[str, int], count: int) -> list[Inputs]:
    """Random inputs on the card that share their caches and list different keys of them."""
    generator = torch.Generator("cuda").manual_seed(0)
    shared: Tensors = {}
    if spec.features.sink is not Sink.NONE:
        shared["sink"] = torch.randn(spec.shapes.heads, device="cuda", generator=generator)
    for name in caches(spec):
        page = sizes[f"{name}_page"]
        keys = torch.randn(CACHE_KEYS, spec.layout.d_qk, device="cuda", generator=generator) / 3
        cache = torch.zeros(
            CACHE_KEYS // page, spec.layout.page_bytes(page), dtype=torch.uint8, device="cuda"
        )
        slots = torch.arange(CACHE_KEYS // page * page, device="cuda")
        store(spec.layout, cache, page, slots, quantize(spec.layout, keys[: len(slots)]))
        shared[f"{name}_cache"] = cache
    return [_listed(spec, sizes, shared, generator) for _ in range(count)]


def _listed(spec: Spec, sizes: Mapping[str, int], shared: Tensors, generator: torch.Generator) -> Inputs:
    tokens, heads = sizes["tokens"], spec.shapes.heads
    q = torch.randn(tokens, heads, spec.layout.d_qk, device="cuda", generator=generator)
    tensors = {**shared, "q": q.to(torch.bfloat16)}
    for name in caches(spec):
        page, shape = sizes[f"{name}_page"], (tokens, sizes[f"{name}_width"])
        slots = CACHE_KEYS // page * page
        tensors[f"{name}_indices"] = torch.randint(
            0, slots, shape, dtype=torch.int32, device="cuda", generator=generator
        )
        if spec.features.lengths:
            full = torch.full((tokens,), shape[1], dtype=torch.int32, device="cuda")
            tensors[f"{name}_lengths"] = full
    return Inputs(dict(sizes), tensors, spec.layout.d_qk**-0.5)


def baseline(spec: Spec, inputs: Inputs, outputs: Tensors) -> Callable[[], object]:
    """The engines' structure: heads batched, one launch a cache, no split, merge and sink in torch."""
    from gen.families.sparse_mla_decode.triton_baseline import decode

    names = caches(spec)
    return lambda: decode(inputs, names, outputs)
