"""Approximations, with the error that the PTX ISA documents for each."""

from __future__ import annotations

from dataclasses import replace

from tests.conformance.case import Case, operation
from tests.conformance.rules import Near, Rule

_LEAST_NORMAL = 2.0**-126
_F32: dict[str, tuple[str, Near]] = {
    "ex2": ("f32", Near(ulps=2)),
    "lg2": ("f32", Near(relative=2.0**-22, absolute=2.0**-22)),
    "rcp": ("f32", Near(ulps=1)),
    "rsqrt": ("f32", Near(relative=2.0**-22.9)),
    "sqrt": ("f32", Near(relative=2.0**-23)),
    "sin": ("angle", Near(absolute=2.0**-14.7)),
    "cos": ("angle", Near(absolute=2.0**-14.7)),
}


def cases() -> list[Case]:
    out = []
    for op, (kind, rule) in _F32.items():
        out.append(_unary(f"{op}.approx.f32", kind, "f32", rule))
        out.append(_unary(f"{op}.approx.ftz.f32", kind, "f32", rule))
    out.append(_unary("tanh.approx.f32", "f32", "f32", Near(relative=2.0**-11)))
    for kind in ("f16", "f16x2"):
        out.append(_unary(f"tanh.approx.{kind}", kind, kind, Near(absolute=2.0**-10.987)))
        out.append(_unary(f"ex2.approx.{kind}", kind, kind, Near(relative=2.0**-9.9, absolute=2.0**-24)))
    for kind in ("bf16", "bf16x2"):
        out.append(_unary(f"tanh.approx.{kind}", kind, kind, Near(absolute=2.0**-8)))
        out.append(
            _unary(f"ex2.approx.ftz.{kind}", kind, kind, Near(relative=2.0**-7, flushes_below=_LEAST_NORMAL))
        )
    for name in ("div.approx.f32", "div.approx.ftz.f32", "div.full.f32", "div.full.ftz.f32"):
        case = operation(name, "f32 f32", "f32", count=768, rule=Near(ulps=2))
        out.append(case)
    return out


def _unary(name: str, takes: str, gives: str, rule: Rule) -> Case:
    case = operation(name, takes, "u32" if gives.endswith("x2") else gives, count=1536, rule=rule)
    return replace(case, value=gives)
