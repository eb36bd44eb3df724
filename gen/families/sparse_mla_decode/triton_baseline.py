"""A Triton kernel of the structure that engines use for sparse-MLA decode: a block walks all keys."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from gen.check.case import Inputs, Tensors

# Triton evaluates annotations, so that its kernel has none but those it knows.
# ruff: noqa: ANN001, ANN202
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

HEADS, KEYS = 32, 32


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _attend(
    q, values, scales, ropes, indices, out, lse, scale_log2, page, page_bytes, width, heads: tl.constexpr,
    tile_heads: tl.constexpr, tile_keys: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0)
    head = tl.program_id(1) * tile_heads + tl.arange(0, tile_heads)
    column, rope_column = tl.arange(0, 512), tl.arange(0, 64)
    is_value = column < 448
    row = (token * heads + head)[:, None] * 512
    has_head = (head < heads)[:, None]
    q_value = tl.load(q + row + column[None, :], mask=has_head & is_value[None, :], other=0.0)
    q_rope = tl.load(q + row + 448 + rope_column[None, :], mask=has_head, other=0.0)
    top, total = tl.full([tile_heads], -1e30, tl.float32), tl.zeros([tile_heads], tl.float32)
    acc, acc_rope = tl.zeros([tile_heads, 512], tl.float32), tl.zeros([tile_heads, 64], tl.float32)
    for first in range(0, width, tile_keys):
        key = first + tl.arange(0, tile_keys)
        index = tl.load(indices + token * width + key, mask=key < width, other=-1)
        valid = index >= 0
        index = tl.maximum(index, 0)
        start = (index // page).to(tl.int64) * page_bytes
        at, footer = start + index % page * 576, start + page * 576 + index % page * 8
        wanted = valid[:, None] & is_value[None, :]
        value = tl.load(values + at[:, None] + column[None, :], mask=wanted, other=0.0).to(tl.float32)
        exponent = tl.load(scales + footer[:, None] + (column // 64)[None, :], mask=wanted, other=127)
        value = (value * tl.exp2(exponent.to(tl.float32) - 127.0)).to(tl.bfloat16)
        rope = tl.load(
            ropes + (at[:, None] + 448) // 2 + rope_column[None, :], mask=valid[:, None], other=0.0
        )
        score = (tl.dot(q_value, tl.trans(value)) + tl.dot(q_rope, tl.trans(rope))) * scale_log2
        score = tl.where(valid[None, :], score, -1e30)
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.where(valid[None, :], tl.exp2(score - higher[:, None]), 0.0)
        factor = tl.exp2(top - higher)
        total = total * factor + tl.sum(weight, 1)
        weight = weight.to(tl.bfloat16)
        acc = acc * factor[:, None] + tl.dot(weight, value)
        acc_rope = acc_rope * factor[:, None] + tl.dot(weight, rope)
        top = higher
    some = tl.where(total > 0, total, 1.0)
    tl.store(out + row + column[None, :], acc / some[:, None], mask=has_head & is_value[None, :])
    tl.store(out + row + 448 + rope_column[None, :], acc_rope / some[:, None], mask=has_head)
    result = tl.where(total > 0, (top + tl.log2(some)) * 0.6931471805599453, -1e30)
    tl.store(lse + token * heads + head, result, mask=head < heads)


def decode(inputs: Inputs, caches: Sequence[str], outputs: Tensors) -> None:
    """A launch for each `v4` cache, their merge by LSE, and the sink, into `out`."""
    tensors, q = inputs.tensors, inputs.tensors["q"]
    tokens, heads, _ = q.shape
    parts, logs = [], []
    for name in caches:
        cache, indices = tensors[f"{name}_cache"], tensors[f"{name}_indices"]
        flat = cache.view(-1)
        views = flat.view(torch.float8_e4m3fn), flat, flat.view(torch.bfloat16)
        out, lse = q.new_empty(q.shape), q.new_empty((tokens, heads), dtype=torch.float32)
        sizes = (inputs.sizes[f"{name}_page"], cache.stride(0), indices.shape[1], heads, HEADS, KEYS)
        scale = inputs.softmax_scale * math.log2(math.e)
        _attend[tokens, triton.cdiv(heads, HEADS)](q, *views, indices, out, lse, scale, *sizes, num_warps=8)
        parts.append(out.float())
        logs.append(lse)
    lse = torch.logsumexp(torch.stack(logs), 0)
    weights = torch.exp(torch.stack(logs) - lse)[..., None]
    merged = (weights * torch.stack(parts)).sum(0)
    if "sink" in tensors:
        merged = merged * torch.sigmoid(lse - tensors["sink"])[..., None]
    outputs["out"].copy_(merged)
