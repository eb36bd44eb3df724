"""The reference of an FP8 block-scaled GEMM: dequantize, multiply."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch

from gen.check.case import Inputs, Tensors
from gen.families.fp8_block_gemm.options import Layout

if TYPE_CHECKING:
    from gen.families.fp8_block_gemm.spec import Spec


def scales(stored: torch.Tensor) -> torch.Tensor:
    """fp32 scales, or the bytes e of ue8m0 ones, which mean 2^(e − 127), in fp64."""
    return torch.exp2(stored.double() - 127) if stored.dtype == torch.uint8 else stored.double()


def dequantized(values: torch.Tensor, stored: torch.Tensor, rows: int) -> torch.Tensor:
    """e4m3 [..., r, k] times scales [..., ceil(r / rows), k / 128], in fp64."""
    factors = scales(stored).repeat_interleave(rows, -2)[..., : values.shape[-2], :]
    return values.double() * factors.repeat_interleave(128, -1)


def reference(spec: Spec, inputs: Inputs) -> Tensors:
    """`out` in fp64 [m, n] or [m, groups, n], and `magnitude`, the sum of its terms' absolute values."""
    t, batched = inputs.tensors, spec.layout is Layout.BATCHED
    if spec.layout is Layout.GROUPED:
        return _grouped(t)
    a = (
        dequantized(t["a"].transpose(0, 1), t["a_scale"].transpose(0, 1), 1)
        if batched
        else dequantized(t["a"], t["a_scale"], 1)
    )
    b = dequantized(t["b"], t["b_scale"], 128)
    out, magnitude = a @ b.mT, a.abs() @ b.abs().mT
    if batched:
        out, magnitude = out.transpose(0, 1), magnitude.transpose(0, 1)
    return {"out": out, "magnitude": magnitude}


def _grouped(t: Tensors) -> Tensors:
    """Each group's rows of a times its b; groups without rows add nothing."""
    a = dequantized(t["a"], t["a_scale"], 1)
    out = a.new_zeros(len(a), t["b"].shape[1])
    magnitude, ends = torch.zeros_like(out), t["offsets"].tolist()
    for group, (start, end) in enumerate(itertools.pairwise(ends)):
        if start < end:
            b = dequantized(t["b"][group], t["b_scale"][group], 128)
            out[start:end], magnitude[start:end] = a[start:end] @ b.mT, a[start:end].abs() @ b.abs().mT
    return {"out": out, "magnitude": magnitude}
