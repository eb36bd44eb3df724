"""Arguments, outputs and bars of an FP8 block-scaled GEMM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gen.check.case import Case, Inputs, Tensors
from gen.check.metrics import Distance, calc_diff, distance
from gen.families.fp8_block_gemm.plan import batch_of
from gen.families.fp8_block_gemm.reference import reference
from gen.plan import Scratch

if TYPE_CHECKING:
    from gen.families.fp8_block_gemm.spec import Spec

OUTPUTS = ("out",)
"""Names of the outputs, in the order in which a call returns them."""


def outputs(spec: Spec, inputs: Inputs) -> dict[str, Scratch]:
    """`out` [m, n], or [m, groups, n] where the layout is batched."""
    m, n, groups = inputs.sizes["m"], inputs.sizes["n"], batch_of(spec)
    shape = (m, groups, n) if groups > 1 else (m, n)
    return {"out": Scratch(shape, str(spec.dtypes.out))}


def arguments(spec: Spec, inputs: Inputs) -> dict[str, torch.Tensor | int | float]:
    """Kernel arguments by name; strides are in elements."""
    tensors = inputs.tensors
    return {
        **tensors,
        "a_stride": tensors["a"].stride(0),
        "a_scale_stride": tensors["a_scale"].stride(0),
        "out_stride": inputs.sizes["n"] * batch_of(spec),
    }


def compare(spec: Spec, case: Case, inputs: Inputs, got: Tensors) -> tuple[list[str], dict[str, Distance]]:
    """What is wrong with `out`, a line each, and its distance from the fp64 reference.

    An element may be off by the rounding of the output and by `accumulate` times the sum of its terms'
    magnitudes; calc_diff is taken against the reference rounded alike. Exact cases must be equal.
    """
    want = reference(spec, inputs)
    out, dtype = got["out"], got["out"].dtype
    distances = {"out": distance(out, want["out"])}
    rounded = want["out"].to(dtype)
    if case.knobs["values"] in ("exact", "zero"):
        return _unequal(out, rounded, out.float() != rounded.float(), "must equal the reference"), distances
    bars = spec.tolerances
    info = torch.finfo(dtype)
    limit = bars.accumulate * want["magnitude"] + info.eps / 2 * want["out"].abs() + info.tiny * info.eps
    faults = _unequal(out, rounded, ~_close(out, want["out"], limit), "the reference")
    difference = calc_diff(out, rounded)
    if difference > bars.calc_diff:
        faults.append(f"out: calc_diff is {difference:.2e}, above {bars.calc_diff:g}")
    return faults, distances


def _close(out: torch.Tensor, want: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """Elements within the limit; past the type's largest value, infinities of the right sign."""
    beyond = want.abs() + limit > torch.finfo(out.dtype).max
    return ((out.double() - want).abs() <= limit) | (beyond & (out.double() == want.sign() * torch.inf))


def _unequal(out: torch.Tensor, want: torch.Tensor, wrong: torch.Tensor, bar: str) -> list[str]:
    where = torch.nonzero(wrong)
    if not len(where):
        return []
    index = tuple(where[0].tolist())
    return [
        f"out{list(index)}: got {float(out[index]):.6g}, {bar} is {float(want[index]):.6g}; "
        f"{len(where)} of {out.numel()} elements fail"
    ]


def equal(spec: Spec, inputs: Inputs, got: Tensors, other: Tensors) -> list[str]:
    """Where the outputs of related inputs differ by more than rounding, a line each."""
    want = reference(spec, inputs)
    info = torch.finfo(got["out"].dtype)
    limit = (
        2 * spec.tolerances.accumulate * want["magnitude"]
        + info.eps * want["out"].abs()
        + info.tiny * info.eps
    )
    same = _close(other["out"], got["out"].double(), limit) | (other["out"] == got["out"])
    return _unequal(other["out"], got["out"], ~same, "the related launch")
