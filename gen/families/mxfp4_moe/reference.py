"""The reference of an MXFP4 mixture of experts: dequantize, multiply, round to bf16 as the kernels do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gen.check.case import Inputs, Tensors
from gen.families.mxfp4_moe.options import Layout

if TYPE_CHECKING:
    from gen.families.mxfp4_moe.spec import Features, Spec

E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])
"""The value of each code (OCP Microscaling Formats 1.0, 5.3.3)."""

SIGMOID_SLOPE = 1.1
"""The greatest slope of x · sigmoid(x), rounded up."""


def dequantized(packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """e2m1 [..., k / 2], the even k in the low half, times ue8m0 [..., k / 32], in fp64 [..., k].

    A scale of 255 is NaN (OCP Microscaling Formats 1.0, 5.4.1).
    """
    codes = torch.stack([packed & 15, packed >> 4], -1).flatten(-2).long()
    exponent = torch.where(scale == 255, torch.nan, scale.double() - 127)
    return E2M1.double()[codes] * torch.exp2(exponent).repeat_interleave(32, -1)


def gate_and_up(spec: Spec, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of gate and of up out of w13's [2 · intermediate, ...]."""
    if spec.layout is Layout.INTERLEAVED:
        return rows[0::2], rows[1::2]
    first, second = rows.chunk(2)
    return (first, second) if spec.layout is Layout.GATE_UP else (second, first)


def reference(spec: Spec, inputs: Inputs) -> Tensors:
    """`out` in fp64 [tokens, hidden], and `bound`, how far sums may be from it before they round.

    What goes into w2 and what comes out is rounded to bf16. An element whose fp32 sum may fall on either side
    of a rounding boundary adds the distance of both roundings to the bound.
    """
    t, features = inputs.tensors, spec.features
    tokens, hidden, experts = (inputs.sizes[name] for name in ("tokens", "hidden", "experts"))
    x, ids = t["hidden_states"].double(), t["topk_ids"]
    group = spec.dtypes.activation_group
    if group:
        x = quantized(x, scales(amax(x, group)))
    out, bound = (torch.zeros(tokens, hidden, dtype=torch.float64) for _ in range(2))
    for expert in range(experts):
        token, slot = torch.nonzero(ids == expert, as_tuple=True)
        if not len(token):
            continue
        weight = t["topk_weights"][token, slot].double()[:, None]
        one = torch.ones_like(weight)
        before, after = (weight, one) if features.weight_before_down else (one, weight)
        h, h_bound = _activated(spec, t, expert, x[token])
        h, h_bound = _rounded(h * before, h_bound * before.abs() + 2.0**-22 * (h * before).abs())
        if group:
            h, h_bound = _requantized(h, h_bound, group)
        w2 = dequantized(t["w2"][expert], t["w2_scale"][expert])
        rows, rows_bound = _product(spec, h, h_bound, w2)
        if features.bias:
            rows = rows + before * t["w2_bias"][expert].double()
            rows_bound = rows_bound + 2.0**-22 * rows.abs()
        rows, rows_bound = _rounded(rows, rows_bound)
        out.index_add_(0, token, rows * after)
        bound.index_add_(0, token, rows_bound * after.abs() + 2.0**-20 * (rows * after).abs())
    return {"out": out * features.routed_scaling_factor, "bound": bound * features.routed_scaling_factor}


def _product(
    spec: Spec, a: torch.Tensor, a_bound: torch.Tensor, b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """a [m, k] · b [n, k]ᵀ, and its bound where a has one."""
    sums = spec.tolerances.accumulate * (a.abs() @ b.abs().mT)
    return a @ b.mT, sums + a_bound @ b.abs().mT


def _activated(spec: Spec, t: Tensors, expert: int, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """SwiGLU of x [m, hidden], and its bound."""
    weights = gate_and_up(spec, dequantized(t["w13"][expert], t["w13_scale"][expert]))
    (gate, gate_bound), (up, up_bound) = (_product(spec, x, torch.zeros_like(x), w) for w in weights)
    if spec.features.bias:
        biases = gate_and_up(spec, t["w13_bias"][expert].double())
        gate, up = gate + biases[0], up + biases[1]
        gate_bound, up_bound = gate_bound + 2.0**-22 * gate.abs(), up_bound + 2.0**-22 * up.abs()
    return swiglu(spec.features, gate, gate_bound, up, up_bound)


def swiglu(
    features: Features,
    gate: torch.Tensor,
    gate_bound: torch.Tensor,
    up: torch.Tensor,
    up_bound: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """gate · sigmoid(alpha · gate) · (up + beta) after the limit, and its bound for fp32 arithmetic."""
    if features.limit is not None:
        gate, up = gate.clamp(max=features.limit), up.clamp(-features.limit, features.limit)
    up = up + features.beta
    # An fp32 argument of exp is off by 2^-24 of itself, and the result by as much of itself.
    activated = gate * torch.sigmoid(features.alpha * gate)
    off = SIGMOID_SLOPE * gate_bound + 2.0**-21 * (1 + features.alpha * gate.abs()) * activated.abs() + 1e-36
    return activated * up, off * (up.abs() + up_bound) + activated.abs() * (up_bound + 2.0**-22 * up.abs())


def amax(values: torch.Tensor, group: int) -> torch.Tensor:
    """The greatest magnitude of each group of the last dimension, at least 1e-4."""
    groups = values.view(*values.shape[:-1], values.shape[-1] // group, group)
    return groups.abs().amax(-1).clamp(min=1e-4)


def scales(largest: torch.Tensor) -> torch.Tensor:
    """2^ceil(log2(amax / 448)), as DeepSeek's inference code scales activations; 448 is e4m3's largest."""
    return torch.exp2(torch.ceil(torch.log2(largest / 448)))


def quantized(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Values [..., k] rounded to e4m3 times a scale of each group [..., k / group], in fp64."""
    factors = scale.repeat_interleave(values.shape[-1] // scale.shape[-1], -1)
    # Through fp32, which is exact: these are bf16 values over powers of two.
    return (values / factors).clamp(-448, 448).float().to(torch.float8_e4m3fn).double() * factors


def _requantized(values: torch.Tensor, bound: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`values` quantized, and how far from that what lies within `bound` of them may be quantized."""
    low, high = values - bound, values + bound
    largest = values.abs() + bound
    least = (values.abs() - bound).clamp(min=0)
    result = quantized(values, scales(amax(values, group)))
    off = torch.zeros_like(result)
    for scale in (scales(amax(least, group)), scales(amax(largest, group))):
        for end in (low, high):
            off = torch.maximum(off, (quantized(end, scale) - result).abs())
    return result, off


def _rounded(exact: torch.Tensor, bound: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`exact` in bf16, and how far from that a value within `bound` of it may round."""
    rounded, low, high = (
        value.to(torch.bfloat16).double() for value in (exact, exact - bound, exact + bound)
    )
    return rounded, torch.maximum(high - rounded, rounded - low)
