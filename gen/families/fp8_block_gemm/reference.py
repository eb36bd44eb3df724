"""The reference of an FP8 block-scaled GEMM: dequantize, multiply."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gen.check.case import Inputs, Tensors

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
    t, grouped = inputs.tensors, spec.shapes.groups > 1
    a = (
        dequantized(t["a"].transpose(0, 1), t["a_scale"].transpose(0, 1), 1)
        if grouped
        else dequantized(t["a"], t["a_scale"], 1)
    )
    b = dequantized(t["b"], t["b_scale"], 128)
    out, magnitude = a @ b.mT, a.abs() @ b.abs().mT
    if grouped:
        out, magnitude = out.transpose(0, 1), magnitude.transpose(0, 1)
    return {"out": out, "magnitude": magnitude}
