"""`.f32` and `.f64` arithmetic with every rounding mode."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.case import Array, Case, elementwise, operation
from tests.conformance.inputs import nans, near_underflow

_ROUNDINGS = ("rn", "rz", "rm", "rp")


def cases() -> list[Case]:
    out: list[Case] = []
    for rounding in _ROUNDINGS:
        for flags in ("", ".ftz", ".sat", ".ftz.sat"):
            out += [
                operation(f"{op}.{rounding}{flags}.f32", "f32 f32", "f32") for op in ("add", "sub", "mul")
            ]
            out.append(operation(f"fma.{rounding}{flags}.f32", "f32 f32 f32", "f32", count=768))
        for ftz in ("", ".ftz"):
            out.append(operation(f"div.{rounding}{ftz}.f32", "f32 f32", "f32", count=768))
            out += [operation(f"{op}.{rounding}{ftz}.f32", "f32", "f32") for op in ("rcp", "sqrt")]
        out += [operation(f"{op}.{rounding}.f64", "f64 f64", "f64") for op in ("add", "sub", "mul", "div")]
        out.append(operation(f"fma.{rounding}.f64", "f64 f64 f64", "f64", count=768))
        out += [operation(f"{op}.{rounding}.f64", "f64", "f64") for op in ("rcp", "sqrt")]
    out += _special()
    for op in ("min", "max"):
        for ftz in ("", ".ftz"):
            for nan in ("", ".NaN"):
                for sign in ("", ".xorsign.abs"):
                    out.append(operation(f"{op}{ftz}{nan}{sign}.f32", "f32 f32", "f32", count=768))
        out.append(operation(f"{op}.f64", "f64 f64", "f64", count=768))
    for op in ("neg", "abs"):
        out += [operation(f"{op}{flag}.f32", "f32", "f32") for flag in ("", ".ftz")]
        out.append(operation(f"{op}.f64", "f64", "f64"))
    for t in ("f32", "f64"):
        out.append(operation(f"copysign.{t}", f"{t} {t}", t, count=768))
        names = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
        steps = [
            f"testp.{n}.{t} %p0, %a0; selp.u32 %r2, {1 << i}, 0, %p0; or.b32 %d0, %d0, %r2;"
            for i, n in enumerate(names)
        ]
        out.append(elementwise(f"testp.{t}", "mov.u32 %d0, 0; " + " ".join(steps), t))
    return out


def _special() -> list[Case]:
    """Results that are subnormal before rounding, and NaN operands of every kind."""
    out = []
    for t, flags in (("f32", ("", ".ftz")), ("f64", ("",))):
        for rounding in _ROUNDINGS:
            for flag in flags:
                for op, count in (("mul", 2), ("div", 2), ("fma", 3)):
                    out.append(_of(f"{op}.{rounding}{flag}.{t}", count, t, "near underflow", near_underflow))
        for op, count in (
            ("add.rn", 2),
            ("sub.rn", 2),
            ("mul.rn", 2),
            ("div.rn", 2),
            ("fma.rn", 3),
            ("fma.rz", 3),
        ):
            out.append(_of(f"{op}.{t}", count, t, "of NaNs", nans))
        for op, count in (("min", 2), ("max", 2), ("sqrt.rn", 1), ("rcp.rn", 1), ("neg", 1), ("abs", 1)):
            out.append(_of(f"{op}.{t}", count, t, "of NaNs", nans))
    return out


def _of(name: str, count: int, t: str, what: str, data: Callable[[str, int], list[Array]]) -> Case:
    sources = ", ".join(f"%a{i}" for i in range(count))
    kinds = " ".join([t] * count)
    code = f"{name} %d0, {sources};"
    return elementwise(f"{name} {what}", code, kinds, t, data=lambda: data(t, 384)[:count])
