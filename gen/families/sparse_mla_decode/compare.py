"""Arguments, outputs and bars of sparse-MLA decode."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from gen.check.case import Case, Inputs, Tensors
from gen.check.metrics import Distance, distance, failing
from gen.families.sparse_mla_decode.plan import caches
from gen.families.sparse_mla_decode.reference import reference
from gen.plan import Scratch

if TYPE_CHECKING:
    from gen.families.sparse_mla_decode.spec import Spec

P_ROUNDING = 2.0**-7
"""Bound, relative to Σ p |v|, on the cost of rounding each probability to bf16 (2^-8), doubled."""


OUTPUTS = ("out", "lse")
"""Names of the outputs, in the order in which a call returns them."""


def outputs(spec: Spec, inputs: Inputs) -> dict[str, Scratch]:
    """`out` bf16 [tokens, heads, d_v] and `lse` fp32 [tokens, heads]."""
    rows = (inputs.sizes["tokens"], spec.shapes.heads)
    return {"out": Scratch((*rows, spec.layout.d_v), "bfloat16"), "lse": Scratch(rows, "float32")}


def arguments(spec: Spec, inputs: Inputs) -> dict[str, torch.Tensor | int | float]:
    """Kernel arguments by name. Raises ValueError where a page does not start at a multiple of 8 bytes."""
    values: dict[str, torch.Tensor | int | float] = dict(inputs.tensors)
    values["scale_log2"] = inputs.softmax_scale * math.log2(math.e)
    for name in caches(spec):
        cache = inputs.tensors[f"{name}_cache"]
        stride = cache.stride(0)
        if stride % 8 or cache.data_ptr() % 8:
            raise ValueError(
                f"{name}_cache: pages must start at multiples of 8 bytes, but the stride is {stride} B"
            )
        values[f"{name}_page_vectors"] = stride // 8
        values[f"{name}_vectors"] = cache.shape[0] * stride // 8
    return values


def compare(spec: Spec, case: Case, inputs: Inputs, got: Tensors) -> tuple[list[str], dict[str, Distance]]:
    """What is wrong with the outputs, a line each, and their distances from the fp64 reference.

    Bars: FlashMLA's, from the spec's tolerances, the absolute one growing with Σ p |v| past the range of
    its inputs; twice the rms error of PyTorch with probabilities rounded to bf16; on `exact` cases, equality.
    """
    bars, want = spec.tolerances, reference(spec, inputs)
    distances = {name: distance(got[name], want[name]) for name in ("out", "lse")}
    faults = []
    if case.knobs["values"] == "exact":
        unequal = torch.nonzero(got["out"] != want["out"].to(torch.bfloat16))
        if len(unequal):
            faults.append(_text("out", got, want, unequal, "must equal the reference bit for bit"))
    absolute = (P_ROUNDING * want["spread"]).clamp(min=bars.out_absolute)
    wrong = failing(got["out"], want["out"], absolute, bars.out_relative)
    if len(wrong):
        faults.append(_text("out", got, want, wrong, f"bars {bars.out_absolute:g} and {bars.out_relative:g}"))
    wrong = failing(got["lse"], want["lse"], bars.lse_absolute, bars.lse_relative)
    if len(wrong):
        faults.append(_text("lse", got, want, wrong, f"bars {bars.lse_absolute:g} and {bars.lse_relative:g}"))
    if distances["out"].cosine > bars.out_cosine:
        faults.append(f"out: 1 - cos is {distances['out'].cosine:.2e}, above {bars.out_cosine:g}")
    own = distance(reference(spec, inputs, torch.bfloat16)["out"], want["out"]).rms
    if distances["out"].rms > 2 * own + 1e-7:
        faults.append(f"out: rms error {distances['out'].rms:.2e} is over twice bf16 PyTorch's {own:.2e}")
    return faults, distances


def _text(name: str, got: Tensors, want: Tensors, where: torch.Tensor, bar: str) -> str:
    index = tuple(where[0].tolist())
    value, expected = float(got[name][index]), float(want[name][index])
    return (
        f"{name}{list(index)}: got {value:.6g}, the reference is {expected:.6g} "
        f"({bar}); {len(where)} of {got[name].numel()} elements fail"
    )


def equal(spec: Spec, inputs: Inputs, got: Tensors, other: Tensors) -> list[str]:
    """Where the outputs of related inputs differ by more than rounding, a line each."""
    bars = spec.tolerances
    spread = reference(spec, inputs)["spread"]
    limits = {
        "out": ((2 * P_ROUNDING * spread).clamp(min=bars.out_absolute), bars.out_relative),
        "lse": (torch.tensor(bars.lse_absolute), bars.lse_relative),
    }
    faults = []
    for name, (absolute, relative) in limits.items():
        wrong = failing(other[name], got[name], absolute, relative)
        if len(wrong):
            faults.append(_text(name, other, got, wrong, "the related launch"))
    return faults
