"""`.f16` and `.bf16` arithmetic, single and packed."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.case import Array, Case, elementwise, operation
from tests.conformance.inputs import nans, near_underflow

_TYPES = ("f16", "bf16", "f16x2", "bf16x2")


def cases() -> list[Case]:
    out: list[Case] = []
    for t in _TYPES:
        ieee = t.startswith("f16")
        gives = "u32" if t.endswith("x2") else t
        for op in ("add", "sub", "mul"):
            flags = ["", ".rn"] + ([".ftz", ".sat", ".ftz.sat"] if ieee else [])
            out += [_case(f"{op}{flag}.{t}", 2, t, gives) for flag in flags]
        flags = ["", ".relu"] + ([".ftz", ".sat", ".ftz.sat", ".ftz.relu"] if ieee else [])
        out += [_case(f"fma.rn{flag}.{t}", 3, t, gives) for flag in flags]
        for op in ("min", "max"):
            for flag in (
                "",
                ".NaN",
                ".xorsign.abs",
                ".NaN.xorsign.abs",
                *((".ftz", ".ftz.NaN") if ieee else ()),
            ):
                out.append(_case(f"{op}{flag}.{t}", 2, t, gives))
        for op in ("neg", "abs"):
            out += [_case(f"{op}{flag}.{t}", 1, t, gives) for flag in ("", *((".ftz",) if ieee else ()))]
    for t, flags in (("f16", ("", ".ftz")), ("bf16", ("",))):
        for flag in flags:
            out.append(_of(f"mul{flag}.{t}", 2, t, "near underflow", near_underflow))
            out.append(_of(f"fma.rn{flag}.{t}", 3, t, "near underflow", near_underflow))
        out += [_of(f"{op}.{t}", 2, t, "of NaNs", nans) for op in ("add", "mul", "min", "max")]
        out.append(_of(f"fma.rn.{t}", 3, t, "of NaNs", nans))
    return out


def _of(name: str, count: int, t: str, what: str, data: Callable[[str, int], list[Array]]) -> Case:
    sources = ", ".join(f"%a{i}" for i in range(count))
    code, kinds = f"{name} %d0, {sources};", " ".join([t] * count)
    return elementwise(f"{name} {what}", code, kinds, t, data=lambda: data(t, 384)[:count])


def _case(name: str, count: int, kind: str, gives: str) -> Case:
    return operation(name, " ".join([kind] * count), gives, count=768 if count > 1 else 256)
