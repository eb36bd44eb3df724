"""How far a result is from its reference."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Distance:
    """Errors of one output: greatest, 99th percentile and rms of the absolute error, and 1 − cos."""

    absolute: float
    percentile_99: float
    rms: float
    cosine: float


def distance(got: torch.Tensor, want: torch.Tensor) -> Distance:
    """Distances of two tensors of one shape, in fp64; pairs of equal infinities count as equal."""
    got, want = got.double().flatten(), want.double().flatten()
    error = torch.where(got == want, 0, (got - want).abs())
    if not error.numel():
        return Distance(0.0, 0.0, 0.0, 0.0)
    finite = want.isfinite() & got.isfinite()
    a, b = got[finite], want[finite]
    norms = (a * a + b * b).sum()
    cosine = 1 - float(2 * (a * b).sum() / norms) if norms > 0 else 0.0
    return Distance(
        float(error.max()),
        float(torch.quantile(error[:1_000_000], 0.99)),
        float((error**2).mean().sqrt()),
        cosine,
    )


def calc_diff(x: torch.Tensor, y: torch.Tensor) -> float:
    """1 − 2 x·y / (x·x + y·y) in fp64, as in DeepGEMM's tests, over what is finite in both."""
    finite = x.isfinite() & y.isfinite()
    a, b = x[finite].double(), y[finite].double()
    scale = max(float(a.abs().max()), float(b.abs().max()), 1e-300) if a.numel() else 1.0
    a, b = a / scale, b / scale
    total = float((a * a + b * b).sum())
    return 1 - 2 * float((a * b).sum()) / total if total else 0.0


def failing(
    got: torch.Tensor, want: torch.Tensor, absolute: float | torch.Tensor, relative: float
) -> torch.Tensor:
    """Indices [n, dims] of elements that pass neither bar; NaN never passes."""
    got, want = got.double(), want.double()
    error = (got - want).abs()
    passes = (got == want) | (error < absolute) | (error < relative * want.abs())
    return torch.nonzero(~passes)
