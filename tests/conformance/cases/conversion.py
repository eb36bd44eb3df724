"""cvt among all types of sm_90."""

from __future__ import annotations

import numpy as np

from tests.conformance.case import Array, Case, elementwise, operation

_INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
_FLOATS = ("f16", "bf16", "f32", "f64")
_ROUNDINGS = ("rn", "rz", "rm", "rp")
_BITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


def cases() -> list[Case]:
    return [*_integers(), *_floats(), *_packed()]


def _integers() -> list[Case]:
    out = []
    for to in _INTEGERS:
        for source in _INTEGERS:
            if to != source:
                out.append(_case(f"cvt.{to}.{source}", source, to))
                if _may_clamp(to, source):
                    out.append(_case(f"cvt.sat.{to}.{source}", source, to))
        for source in _FLOATS:
            if source == "bf16" and to in ("u8", "s8"):
                continue
            for rounding in ("rni", "rzi", "rmi", "rpi"):
                out.append(_case(f"cvt.{rounding}.{to}.{source}", source, to))
                if source == "f32":
                    out.append(_case(f"cvt.{rounding}.ftz.{to}.{source}", source, to))
            if source in ("f32", "f64"):
                out.append(_case(f"cvt.rni.sat.{to}.{source}", source, to))
    return out


def _floats() -> list[Case]:
    out = []
    for to in _FLOATS:
        for source in _INTEGERS:
            if to != "bf16" or source not in ("u8", "s8"):
                out += [_case(f"cvt.{rounding}.{to}.{source}", source, to) for rounding in _ROUNDINGS]
        out += [_case(f"cvt.rn.sat.{to}.{source}", source, to) for source in ("s32", "u64") if to != "bf16"]
        for source in _FLOATS:
            if _BITS[to] < _BITS[source] or {to, source} == {"f16", "bf16"}:
                out += [_case(f"cvt.{rounding}.{to}.{source}", source, to) for rounding in _ROUNDINGS]
            elif to != source:
                out.append(_case(f"cvt.{to}.{source}", source, to))
            if to == source and to != "bf16":
                out += [_case(f"cvt.{r}.{to}.{source}", source, to) for r in ("rni", "rzi", "rmi", "rpi")]
    names = [
        "cvt.rn.sat.f16.f32",
        "cvt.rn.sat.f32.f64",
        "cvt.sat.f32.f16",
        "cvt.sat.f64.f32",
        "cvt.sat.f16.f16",
    ]
    names += [
        "cvt.sat.f32.f32",
        "cvt.rni.sat.f32.f32",
        "cvt.rn.ftz.f16.f32",
        "cvt.rn.ftz.f32.f64",
        "cvt.ftz.f32.f16",
    ]
    names += ["cvt.ftz.f64.f32", "cvt.rzi.ftz.f32.f32", "cvt.rn.ftz.sat.f16.f32"]
    names += [f"cvt.{r}.relu.{to}.f32" for r in ("rn", "rz") for to in ("f16", "bf16")]
    out += [_case(name, name.split(".")[-1], name.split(".")[-2]) for name in names]
    for flag in ("", ".ftz"):
        for rounding in _ROUNDINGS:
            name = f"cvt.{rounding}{flag}.f32.f64"
            out.append(
                elementwise(
                    f"{name} near underflow",
                    f"{name} %d0, %a0;",
                    "f64",
                    "f32",
                    count=256,
                    data=_least_normals,
                )
            )
    for name in ("rna", "rn", "rz", "rn.relu", "rz.relu", "rna.satfinite"):
        out.append(operation(f"cvt.{name}.tf32.f32", "f32", "u32"))
    return out


def _packed() -> list[Case]:
    out = []
    for to in ("f16x2", "bf16x2"):
        for rounding in ("rn", "rz", "rn.relu", "rz.relu"):
            out.append(operation(f"cvt.{rounding}.{to}.f32", "f32 f32", "u32", count=768))
    for to in ("e4m3x2", "e5m2x2"):
        for relu in ("", ".relu"):
            out.append(operation(f"cvt.rn.satfinite{relu}.{to}.f32", "f32 f32", "u16", count=768))
            out.append(operation(f"cvt.rn.satfinite{relu}.{to}.f16x2", "f16x2", "u16", count=768))
            out.append(operation(f"cvt.rn{relu}.f16x2.{to}", to, "u32", count=256, data=_every_code))
    return out


def _least_normals() -> list[Array]:
    """f64 values within some f32 units of 2^-126, of either sign, a quarter of a unit apart."""
    near = 1 + (np.arange(256) - 128) * 2.0**-28
    near[128:] = 1 + (np.arange(128) - 64) * 2.0**-25
    return [(2.0**-126 * near * np.where(np.arange(256) % 3 == 0, -1, 1)).view(np.uint64)]


def _may_clamp(to: str, source: str) -> bool:
    """Whether an integer type holds values that another does not; else .sat is refused."""
    bits, others = int(source[1:]), int(to[1:])
    return (source[0] == "s" and (to[0] == "u" or bits > others)) or (
        source[0] == "u" and bits >= others + (to[0] == "u")
    )


def _every_code() -> list[Array]:
    """Each of the 256 codes in the low byte, another in the high one."""
    code = np.arange(256, dtype=np.uint16)
    return [(code * np.uint16(37) + np.uint16(11)) << np.uint16(8) | code]


def _case(name: str, takes: str, gives: str) -> Case:
    """8-bit results are in 16-bit registers, extended by their sign."""
    wide = {"u8": "u16", "s8": "s16"}.get(gives, gives)
    return operation(name, takes, wide, count=256)
