"""Arguments, outputs and bars of an MXFP4 mixture of experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gen.check.case import Case, Inputs, Tensors
from gen.check.metrics import Distance, calc_diff, distance
from gen.families.mxfp4_moe.reference import reference
from gen.plan import Scratch

if TYPE_CHECKING:
    from gen.families.mxfp4_moe.spec import Spec

OUTPUTS = ("out",)
"""Names of the outputs, in the order in which a call returns them."""


def outputs(spec: Spec, inputs: Inputs) -> dict[str, Scratch]:
    """`out` [tokens, hidden]."""
    return {"out": Scratch((inputs.sizes["tokens"], inputs.sizes["hidden"]), str(spec.dtypes.out))}


def arguments(spec: Spec, inputs: Inputs) -> dict[str, torch.Tensor | int | float]:
    """Kernel arguments by name."""
    return {**inputs.tensors}


def compare(spec: Spec, case: Case, inputs: Inputs, got: Tensors) -> tuple[list[str], dict[str, Distance]]:
    """What is wrong with `out`, a line each, and its distance from the fp64 reference.

    An element may be off by the rounding of the output and by the reference's bound; calc_diff is taken
    against the reference rounded alike. Exact cases must be equal.
    """
    want = reference(spec, inputs)
    out, rounded = got["out"], want["out"].to(got["out"].dtype)
    distances = {"out": distance(out, want["out"])}
    if case.knobs["values"] in ("exact", "zero"):
        return _unequal(out, rounded, out.float() != rounded.float(), "must equal the reference"), distances
    limit = want["bound"] + _half_ulp(out.dtype, want["out"])
    faults = _unequal(out, rounded, ~((out.double() - want["out"]).abs() <= limit), "the reference")
    difference = calc_diff(out, rounded)
    if not difference <= spec.tolerances.calc_diff:
        faults.append(f"out: calc_diff is {difference:.2e}, above {spec.tolerances.calc_diff:g}")
    return faults, distances


def equal(spec: Spec, inputs: Inputs, got: Tensors, other: Tensors) -> list[str]:
    """Where the outputs of related inputs differ by more than rounding, a line each."""
    want = reference(spec, inputs)
    limit = 2 * (want["bound"] + _half_ulp(got["out"].dtype, want["out"]))
    wrong = ~((other["out"].double() - got["out"].double()).abs() <= limit)
    return _unequal(other["out"], got["out"], wrong, "the related launch")


def _half_ulp(dtype: torch.dtype, value: torch.Tensor) -> torch.Tensor:
    info = torch.finfo(dtype)
    return info.eps / 2 * value.abs() + info.tiny * info.eps


def _unequal(out: torch.Tensor, want: torch.Tensor, wrong: torch.Tensor, bar: str) -> list[str]:
    where = torch.nonzero(wrong)
    if not len(where):
        return []
    index = tuple(where[0].tolist())
    return [
        f"out{list(index)}: got {float(out[index]):.6g}, {bar} is {float(want[index]):.6g}; "
        f"{len(where)} of {out.numel()} elements fail"
    ]
