"""Sparse-MLA decode in plain PyTorch, fp64 on dequantized keys."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from gen.check.case import Inputs, Tensors
from gen.families.sparse_mla_decode.cache import gather
from gen.families.sparse_mla_decode.options import LseBase, Sink
from gen.families.sparse_mla_decode.plan import caches

if TYPE_CHECKING:
    from gen.families.sparse_mla_decode.spec import Spec


def gathered(spec: Spec, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys fp64 [tokens, widths, d_qk], zero where invalid, and their validity bool [tokens, widths].

    A key is invalid where its index is -1 or its column is not below the token's length.
    """
    keys, valid = [], []
    for name in caches(spec):
        indices, cache = inputs.tensors[f"{name}_indices"], inputs.tensors[f"{name}_cache"]
        ok = indices >= 0
        if spec.features.lengths:
            columns = torch.arange(indices.shape[1], device=indices.device)
            ok = ok & (columns < inputs.tensors[f"{name}_lengths"][:, None])
        gathered_keys = cache.new_zeros((*indices.shape, spec.layout.d_qk), dtype=torch.float64)
        gathered_keys[ok] = gather(spec.layout, cache, inputs.sizes[f"{name}_page"], indices[ok].long())
        keys.append(gathered_keys)
        valid.append(ok)
    return torch.cat(keys, 1), torch.cat(valid, 1)


def reference(spec: Spec, inputs: Inputs, precision: torch.dtype = torch.float64) -> Tensors:
    """`out` [tokens, heads, d_v] and `lse` [tokens, heads] in fp64, and `spread` = Σ p |v| like `out`.

    score = softmax_scale · q·k; lse = logsumexp over valid keys; out = softmax · v, times
    1 / (1 + exp(sink - lse)) with a sink. With `precision` bf16 the probabilities and the output are rounded
    as a bf16 tensor-core kernel rounds them: the error that the precision itself brings.
    """
    keys, valid = gathered(spec, inputs)
    scores = torch.einsum("thd,tkd->thk", inputs.tensors["q"].double(), keys) * inputs.softmax_scale
    scores = scores.masked_fill(~valid[:, None], -math.inf)
    lse = (
        torch.logsumexp(scores, -1) if scores.shape[-1] else torch.full(scores.shape[:2], -math.inf).double()
    )
    top = scores.amax(-1, keepdim=True) if scores.shape[-1] else lse[..., None]
    weights = torch.exp(scores - torch.where(top.isfinite(), top, 0))
    total = weights.sum(-1, keepdim=True)
    factor = torch.where(total > 0, 1 / total, 0)
    values = keys[..., : spec.layout.d_v]
    if spec.features.sink is not Sink.NONE:
        sink = inputs.tensors["sink"].double()[None].expand_as(lse)
        factor = factor * torch.where(lse > -math.inf, torch.sigmoid(lse - sink), 0)[..., None]
        if spec.features.sink is Sink.OUTPUT_AND_LSE:
            lse = torch.logaddexp(lse, sink)
    rounded = weights.to(precision).double()
    out = (torch.einsum("thk,tkd->thd", rounded, values) * factor).to(precision).double()
    spread = torch.einsum("thk,tkd->thd", weights, values.abs()) * factor
    lse = lse / math.log(2) if spec.features.lse_base is LseBase.TWO else lse
    lse = torch.where(lse == -math.inf, spec.features.lse_empty.number, lse)
    return {"out": out, "lse": lse, "spread": spread}
