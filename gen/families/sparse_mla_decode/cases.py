"""Inputs of sparse-MLA decode: what the fuzzer varies, what is always tested, how a case is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

from gen.check.case import Case, FuzzSize, Inputs, Knob, Relation
from gen.families.sparse_mla_decode.cache import quantize, store
from gen.families.sparse_mla_decode.options import Layout, Sink
from gen.families.sparse_mla_decode.plan import caches
from gen.values import bounds

if TYPE_CHECKING:
    from gen.families.sparse_mla_decode.spec import Spec

FAR_BYTES = (1 << 31) + (1 << 28)
"""Where the pages of a `far` cache start: past what a signed 32-bit offset reaches."""

PAGE_SIZES = (1, 2, 53, 61, 64, 69, 256, 576)
"""FlashMLA's test sizes and those of the engines."""


def fuzz_sizes(spec: Spec) -> dict[str, FuzzSize]:
    """Sizes that keep one example to a few key tiles, so that the interpreter takes a second or two."""
    sizes = {"tokens": FuzzSize(max(1, 192 // max(spec.shapes.heads, 16)))}
    for name in caches(spec):
        sizes[f"{name}_page"] = FuzzSize(576, 64)
        sizes[f"{name}_width"] = FuzzSize(3 * spec.tile.keys + 1, spec.tile.keys)
    return sizes


def knobs(spec: Spec) -> dict[str, tuple[Knob, ...]]:
    """The kinds of inputs that a case chooses from; the first of each is the plain one."""
    kinds: dict[str, tuple[Knob, ...]] = {
        "values": ("normal", "exact", "extreme"),
        "indices": ("random", "repeated", "holes", "invalid", "last_slots"),
        "stride": ("padded", "unpadded", "wide"),
        "far": (False,),
    }
    if spec.features.lengths:
        kinds["lengths"] = ("full", "random", "zero", "one", "beyond")
    if spec.features.sink is not Sink.NONE:
        kinds["sink"] = ("normal", "plus_inf", "minus_inf", "mixed")
    return kinds


def must_test(spec: Spec) -> dict[str, Case]:
    """The cases that public failures teach, by name, as far as the spec's sizes admit them."""
    plain: dict[str, Knob] = {name: kinds[0] for name, kinds in knobs(spec).items()}
    plain["seed"] = 1
    keys = spec.tile.keys

    def case(tokens: int = 1, width: int = keys + 3, page: int | None = None, **changes: Knob) -> Case:
        wanted = {"tokens": tokens}
        for name, offset in zip(caches(spec), (0, 5), strict=False):
            wanted[f"{name}_width"] = max(width - offset, 0)
            wanted[f"{name}_page"] = page or (64 if name == "main" else 2)
        return Case({name: _clamped(spec, name, size) for name, size in wanted.items()}, plain | changes)

    cases = {
        "invalid_indices_over_nan_slots": case(2, indices="invalid"),
        "holes_over_nan_slots": case(2, indices="holes"),
        "unpadded_page_stride": case(stride="unpadded"),
        "wide_page_stride": case(stride="wide"),
        "page_of_one": case(page=1),
        "page_of_69": case(page=69, stride="unpadded"),
        "no_tokens": case(0),
        "no_columns": case(2, width=0),
        "one_column": case(width=1),
        "whole_tile": case(width=keys),
        "one_more_than_a_tile": case(width=keys + 1),
        "many_splits": case(width=4 * keys),
        "exact": case(width=keys + 8, values="exact"),
        "extreme_bytes": case(values="extreme"),
        "far_pages": case(page=64, far=True, indices="last_slots"),
    }
    if spec.features.lengths:
        cases |= {f"length_{kind}": case(2, lengths=kind) for kind in ("zero", "one", "random", "beyond")}
    if spec.features.sink is not Sink.NONE:
        cases |= {f"sink_{kind}": case(2, sink=kind) for kind in ("plus_inf", "minus_inf", "mixed")}
        cases["sink_alone"] = case(2, width=0, sink="mixed")
    return cases


def _clamped(spec: Spec, name: str, size: int) -> int:
    low, high = bounds(getattr(spec.shapes, name))
    return min(max(size, low), high)


def make_inputs(spec: Spec, case: Case) -> Inputs:
    """The tensors of a case; the same case always gives the same bytes.

    q bf16 [tokens, heads, d_qk]; a cache uint8 [pages, page bytes] with the page stride of the knob `stride`;
    indices int32 [tokens, width]; lengths int32 [tokens]; sink fp32 [heads]. Slots that no index names, the
    padding of scales and the gaps between pages hold NaN bytes.
    """
    generator = torch.Generator().manual_seed(int(case.knobs["seed"]))
    sizes, layout, heads = dict(case.sizes), spec.layout, spec.shapes.heads
    tokens, values = sizes["tokens"], case.knobs["values"]
    q = torch.randn(tokens, heads, layout.d_qk, generator=generator).clamp(-1, 1)
    if values == "exact":
        q = torch.zeros_like(q)
    tensors = {"q": q.to(torch.bfloat16)}
    for name in caches(spec):
        _add_cache(spec, name, case, tensors, generator)
    if spec.features.sink is not Sink.NONE:
        sink = torch.randn(heads, generator=generator)
        kind = "minus_inf" if values == "exact" else case.knobs["sink"]
        if kind == "mixed":
            sink[::3], sink[1::3] = math.inf, -math.inf
        elif kind != "normal":
            sink[:] = math.inf if kind == "plus_inf" else -math.inf
        tensors["sink"] = sink
    # Extreme keys reach 448 · 2^20: the scale keeps scores in the range where exp2 means something.
    scale = layout.d_qk**-0.5 * (2.0**-28 if values == "extreme" else 1.0)
    return Inputs(sizes, tensors, scale)


def _add_cache(
    spec: Spec, name: str, case: Case, tensors: dict[str, torch.Tensor], generator: torch.Generator
) -> None:
    layout, knobs_ = spec.layout, case.knobs
    tokens, width, page = (case.sizes[key] for key in ("tokens", f"{name}_width", f"{name}_page"))
    pages = 1 + int(torch.randint(0, 3, (), generator=generator)) + tokens * width // (2 * page)
    used = page * layout.token_bytes
    stride = {"padded": layout.page_bytes(page), "unpadded": used, "wide": layout.page_bytes(page) + 1160}
    cache, first = _empty_cache(pages, used, stride[str(knobs_["stride"])], bool(knobs_["far"]))

    slots = pages * page
    kind = knobs_["indices"]
    low = {"last_slots": max(slots - 7, 0), "repeated": 0}.get(str(kind), 0)
    high = min(slots, 3) if kind == "repeated" else slots
    indices = torch.randint(low, high, (tokens, width), generator=generator)
    if kind == "holes":
        indices[torch.rand(tokens, width, generator=generator) < 0.4] = -1
    elif kind == "invalid":
        indices[:] = -1
    if knobs_["values"] == "exact":
        # A power of two of equal scores: every sum and the final division are exact.
        count = 1 << (max(width, 1).bit_length() - 1) if name == "main" else 0
        indices[:, count:] = -1
        indices[:, :count] = indices[:, :count].clamp(min=0)
    used_slots = torch.unique(indices[indices >= 0])
    store(layout, cache, page, used_slots + first * page, _keys(spec, case, len(used_slots), generator))
    tensors[f"{name}_cache"] = cache
    tensors[f"{name}_indices"] = torch.where(indices >= 0, indices + first * page, -1).to(torch.int32)
    if spec.features.lengths:
        full = torch.full((tokens,), width)
        length = {
            "full": full,
            "random": torch.randint(0, width + 1, (tokens,), generator=generator),
            "zero": torch.zeros_like(full),
            "one": full.clamp(max=1),
            "beyond": full + 1000,
        }[str(knobs_["lengths"] if knobs_["values"] != "exact" else "full")]
        tensors[f"{name}_lengths"] = length.to(torch.int32)


def _empty_cache(pages: int, used: int, stride: int, far: bool) -> tuple[torch.Tensor, int]:
    """A cache view [pages, used] of 0xFF bytes, NaN in each of its formats, and its first used page.

    A far cache starts with untouched pages up to `FAR_BYTES`, which cost no memory.
    """
    first = math.ceil(FAR_BYTES / stride) if far else 0
    size = (first + pages) * stride
    flat = torch.from_numpy(np.zeros(size, np.uint8))  # NumPy leaves untouched pages to the system
    flat[first * stride :] = 255
    return flat.as_strided((first + pages, used), (stride, 1)), first


def _keys(
    spec: Spec, case: Case, count: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Quantized keys: N(0, 1/10) as in FlashMLA's tests, small integers, or the formats' extremes."""
    layout, kind = spec.layout, case.knobs["values"]
    if kind == "exact":
        keys = torch.randint(-8, 9, (count, layout.d_qk), generator=generator).float()
        groups = keys[:, : layout.d_nope].unflatten(1, (layout.scales, -1))
        groups[..., 0] = 7.0  # amax / 448 = 2^-6 in every group
        groups.clamp_(-7, 7)
        return quantize(layout, keys)
    values, scales, rope = quantize(layout, torch.randn(count, layout.d_qk, generator=generator) / 10)
    if kind == "extreme":
        edges = torch.tensor([0x7E, 0xFE, 0x01, 0x81, 0x00, 0x80, 0x08, 0x77], dtype=torch.uint8)
        values = edges[torch.randint(0, 8, values.shape, generator=generator)]
        if layout is Layout.V4:
            exponents = torch.tensor([0, 1, 90, 127, 140, 147], dtype=torch.uint8)
            scales = exponents[torch.randint(0, 6, scales.shape, generator=generator)]
        else:
            numbers = torch.tensor([0.0, 1e-30, 3e-3, 1.0, 7777.7, 1e6])
            chosen = numbers[torch.randint(0, 6, (count, layout.scales), generator=generator)]
            scales = chosen.view(torch.uint8)
    return values, scales, rope


RELATIONS = ("rerun", "permute_keys", "append_invalid", "other_splits", "last_token")
"""Changes that may not change a result beyond rounding; `rerun` may not change a bit."""


def related(spec: Spec, inputs: Inputs, relation: str, seed: int) -> Relation:
    """The inputs of one of `RELATIONS`."""
    generator = torch.Generator().manual_seed(seed)
    changes: dict[str, torch.Tensor] = {}
    sizes: Mapping[str, int] = {}
    tokens = inputs.sizes["tokens"]
    if relation == "other_splits":
        return Relation(inputs, splits=1 + seed % 3)
    if relation == "last_token":
        last = {
            name: t[-1:] for name, t in inputs.tensors.items() if t.shape[0] == tokens and _per_token(name)
        }
        count = min(tokens, 1)
        return Relation(inputs.with_tensors({"tokens": count}, **last), tokens - count)
    for name in caches(spec):
        indices = inputs.tensors[f"{name}_indices"]
        if relation == "permute_keys":
            changes[f"{name}_indices"] = _permuted(spec, inputs, name, generator)
        elif relation == "append_invalid":
            width = min(indices.shape[1] + 3, bounds(getattr(spec.shapes, f"{name}_width"))[1])
            extra = indices.new_full((tokens, width - indices.shape[1]), -1)
            changes[f"{name}_indices"] = torch.cat([indices, extra], 1)
            sizes = {**sizes, f"{name}_width": width}
    return Relation(inputs.with_tensors(sizes, **changes))


def _per_token(name: str) -> bool:
    return name == "q" or name.endswith(("_indices", "_lengths"))


def _permuted(spec: Spec, inputs: Inputs, name: str, generator: torch.Generator) -> torch.Tensor:
    """The indices with the columns below each token's length in another order."""
    indices = inputs.tensors[f"{name}_indices"].clone()
    for token, row in enumerate(indices):
        length = len(row)
        if spec.features.lengths:
            length = min(length, int(inputs.tensors[f"{name}_lengths"][token]))
        row[:length] = row[torch.randperm(length, generator=generator)]
    return indices
