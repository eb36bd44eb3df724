"""Integer and floating-point arithmetic: add to fma, min and max, division and roots, transcendentals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gen.ptx.arrays import Array
from gen.ptx.numerics import approx, float32, float64, half, integer
from gen.ptx.ops import carry
from gen.ptx.ops.emit import as_pairs, emit, halves, join_halves
from gen.ptx.ops.mixed import is_mixed, mixed

if TYPE_CHECKING:
    from gen.ptx.context import Context
    from gen.ptx.translation import Op

_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
_HALVES = {"f16": "f16", "bf16": "bf16", "f16x2": "f16", "bf16x2": "bf16"}
_ROUNDINGS = ("rn", "rz", "rm", "rp")
_F32: dict[str, Callable[..., Array]] = {
    "add": float32.add,
    "sub": float32.sub,
    "mul": float32.mul,
    "div": float32.div,
    "fma": float32.fma,
}
_F64: dict[str, Callable[..., Array]] = {
    "add": float64.add,
    "sub": float64.sub,
    "mul": float64.mul,
    "div": float64.div,
    "fma": float64.fma,
}


def _pairwise(function: Callable[..., Array]) -> Callable[..., Array]:
    """An f32 function on the two halves of 64-bit words."""

    def apply(*operands: Array) -> Array:
        return function(*(as_pairs(a) for a in operands)).view(np.uint64)

    return apply


def _half(op: str, kind: str, **options: bool) -> Callable[..., Array]:
    """A function on f16 or bf16 bits, or on both halves of their x2 types."""
    one = partial(half.arith, op, _HALVES[kind], **options)
    if not kind.endswith("x2"):
        return one

    def both(*operands: Array) -> Array:
        parts = [halves(a) for a in operands]
        return join_halves(one(*(p[0] for p in parts)), one(*(p[1] for p in parts)))

    return both


def _emit(c: Context, function: Callable[..., Any], kind: str) -> Op:
    destination = c.destination(c.operands[0], kind)
    c.modifiers.done()
    return emit(function, destination, *(c.source(o, kind) for o in c.operands[1:]))


def _float_options(c: Context, kind: str) -> dict[str, Any]:
    if kind == "f64":
        return {"rounding": c.modifiers.pick(*_ROUNDINGS, default="rn")}
    rounding = c.modifiers.pick(*_ROUNDINGS, default="rn")
    return {"rounding": rounding, "ftz": c.modifiers.flag("ftz"), "sat": c.modifiers.flag("sat")}


def _float(c: Context, name: str, kind: str) -> Op:
    """add, sub, mul, div or fma of a floating-point type."""
    if kind in _HALVES:
        c.modifiers.flag("rn")
        options = {flag: True for flag in ("ftz", "sat", "relu") if c.modifiers.flag(flag)}
        return _emit(c, _half(name, kind, **options), kind)
    options = _float_options(c, kind)
    if kind == "f64":
        return _emit(c, partial(_F64[name], **options), kind)
    function = partial(_F32[name], **options)
    return _emit(c, _pairwise(function) if kind == "f32x2" else function, kind)


def add(c: Context) -> Op:
    """add and sub."""
    c.need(3)
    if is_mixed(c):
        return mixed(c)
    name = c.instruction.opcode
    kind = c.modifiers.type()
    if kind in ("u16x2", "s16x2"):
        ufunc = np.add if name == "add" else np.subtract

        def packed(a: Array, b: Array) -> Array:
            words = ufunc(np.ascontiguousarray(a).view(np.uint16), np.ascontiguousarray(b).view(np.uint16))
            return np.asarray(words).view(np.uint32)

        return _emit(c, packed, "b32")
    if kind not in _INTEGERS:
        return _float(c, name, kind)
    if c.modifiers.flag("sat"):
        return _emit(c, integer.add_sat if name == "add" else integer.sub_sat, kind)
    if c.modifiers.flag("cc"):
        return carry.add(c, kind, uses=False, sets=True)
    return _emit(c, np.add if name == "add" else np.subtract, kind)


def mul(c: Context) -> Op:
    """mul and mul24."""
    c.need(3)
    kind = c.modifiers.type()
    if kind not in _INTEGERS:
        return _float(c, "mul", kind)
    part = c.modifiers.pick("lo", "hi", "wide")
    if c.instruction.opcode == "mul24":
        return _emit(c, partial(integer.mul24, hi=part == "hi"), kind)
    if part == "wide":
        wide = _WIDE[kind]
        destination = c.destination(c.operands[0], wide)
        c.modifiers.done()
        return emit(_wide_product(wide), destination, *(c.source(o, kind) for o in c.operands[1:]))
    return _emit(c, integer.mul_hi if part == "hi" else np.multiply, kind)


def _wide_product(wide: str) -> Callable[[Array, Array], Array]:
    dtype = np.dtype(("u" if wide[0] == "u" else "i") + str(int(wide[1:]) // 8))
    return lambda a, b: np.multiply(a, b, dtype=dtype)


def mad(c: Context) -> Op:
    """mad, mad24, madc and fma."""
    c.need(4)
    if is_mixed(c):
        return mixed(c)
    kind = c.modifiers.type()
    if kind not in _INTEGERS:
        return _float(c, "fma", kind)
    part = c.modifiers.pick("lo", "hi", "wide")
    opcode = c.instruction.opcode
    if part == "hi" and kind == "s32" and c.modifiers.flag("sat"):
        high = partial(integer.mul24, hi=True) if opcode == "mad24" else integer.mul_hi
        return _emit(c, lambda x, y, z: integer.add_sat(high(x, y), z), kind)
    sets, uses = c.modifiers.flag("cc"), opcode == "madc"
    if sets or uses:
        return carry.mad(c, kind, part, uses=uses, sets=sets)
    if part == "wide":
        wide = _WIDE[kind]
        product = _wide_product(wide)
        destination = c.destination(c.operands[0], wide)
        a, b = (c.source(o, kind) for o in c.operands[1:3])
        c.modifiers.done()
        return emit(lambda x, y, z: product(x, y) + z, destination, a, b, c.source(c.operands[3], wide))
    if opcode == "mad24":
        return _emit(c, lambda x, y, z: integer.mul24(x, y, hi=part == "hi") + z, kind)
    if part == "hi":
        return _emit(c, lambda x, y, z: integer.mul_hi(x, y) + z, kind)
    return _emit(c, lambda x, y, z: x * y + z, kind)


def div(c: Context) -> Op:
    """div and rem."""
    c.need(3)
    kind = c.modifiers.type()
    if kind in _INTEGERS:
        return _emit(c, integer.div if c.instruction.opcode == "div" else integer.rem, kind)
    if c.modifiers.flag("approx"):
        return _emit(c, partial(approx.div_approx, ftz=c.modifiers.flag("ftz")), kind)
    if c.modifiers.flag("full"):
        return _emit(c, partial(approx.div_full, ftz=c.modifiers.flag("ftz")), kind)
    return _float(c, "div", kind)


def minmax(c: Context) -> Op:
    """min and max of two or three operands."""
    c.need(3, 4)
    kind = c.modifiers.type()
    name = c.instruction.opcode
    relu = kind in ("s16x2", "s32") and c.modifiers.flag("relu")
    if kind in ("u16x2", "s16x2"):
        ufunc, dtype = (
            (np.minimum if name == "min" else np.maximum),
            np.uint16 if kind[0] == "u" else np.int16,
        )

        def packed(a: Array, b: Array) -> Array:
            words = ufunc(np.ascontiguousarray(a).view(dtype), np.ascontiguousarray(b).view(dtype))
            return np.asarray(np.maximum(words, 0) if relu else words).view(np.uint32)

        return _emit(c, packed, "b32")
    if kind in _INTEGERS:
        ufunc = np.minimum if name == "min" else np.maximum
        function: Callable[..., Any] = (lambda a, b: np.maximum(ufunc(a, b), 0)) if relu else ufunc
    elif kind in _HALVES:
        suffix = (".nan" if c.modifiers.flag("NaN") else "") + ".xorsign.abs" * c.modifiers.flag("xorsign")
        c.modifiers.flag("abs")
        function = _half(name + suffix, kind, **{"ftz": True} if c.modifiers.flag("ftz") else {})
    elif kind == "f64":
        function = float64.minimum if name == "min" else float64.maximum
    else:
        options: dict[str, Any] = {
            "ftz": c.modifiers.flag("ftz"),
            "nan": c.modifiers.flag("NaN"),
            "xorsign_abs": c.modifiers.flag("xorsign") & c.modifiers.flag("abs"),
        }
        function = partial(float32.minimum if name == "min" else float32.maximum, **options)
    if len(c.operands) == 4:
        two = function
        return _emit(c, lambda a, b, d: two(two(a, b), d), kind)
    return _emit(c, function, kind)


def negate(c: Context) -> Op:
    """neg and abs."""
    c.need(2)
    kind = c.modifiers.type()
    name = c.instruction.opcode
    if kind in _INTEGERS:
        return _emit(c, (lambda a: -a) if name == "neg" else np.abs, kind)
    if kind in _HALVES:
        return _emit(c, _half(name, kind, **{"ftz": True} if c.modifiers.flag("ftz") else {}), kind)
    if kind == "f64":
        return _emit(c, float64.neg if name == "neg" else float64.abs_, kind)
    return _emit(
        c, partial(float32.neg if name == "neg" else float32.abs_, ftz=c.modifiers.flag("ftz")), kind
    )


_APPROXIMATE: dict[str, Callable[..., Array]] = {
    **{"rcp": approx.rcp, "sqrt": approx.sqrt, "rsqrt": approx.rsqrt, "ex2": approx.ex2},
    **{"lg2": approx.lg2, "sin": approx.sin, "cos": approx.cos, "tanh": approx.tanh},
}


def special_function(c: Context) -> Op:
    """rcp, sqrt, rsqrt, ex2, lg2, sin, cos and tanh."""
    c.need(2)
    name, kind = c.instruction.opcode, c.modifiers.type()
    approximate, ftz = c.modifiers.flag("approx"), c.modifiers.flag("ftz")
    if kind in _HALVES and name in ("ex2", "tanh"):
        return _emit(c, _half(name, kind, **{"ftz": True} if ftz else {}), kind)
    if kind == "f32" and approximate:
        function = _APPROXIMATE[name]
        return _emit(c, function if name == "tanh" else partial(function, ftz=ftz), kind)
    rounding = c.modifiers.pick(*_ROUNDINGS, default="")
    if rounding and kind == "f32" and name in ("rcp", "sqrt"):
        exact = float32.rcp if name == "rcp" else float32.sqrt
        return _emit(c, partial(exact, rounding=rounding, ftz=ftz), kind)
    if rounding and kind == "f64" and name in ("rcp", "sqrt"):
        exact64 = float64.rcp if name == "rcp" else float64.sqrt
        return _emit(c, partial(exact64, rounding=rounding), kind)
    raise c.instruction.error("this form is not implemented")


def copysign(c: Context) -> Op:
    """copysign.f32/.f64 d, a, b: the magnitude of b with the sign of a."""
    c.need(3)
    kind = c.modifiers.type()
    return _emit(c, lambda a, b: np.copysign(b, a), kind)


def testp(c: Context) -> Op:
    """testp: the class of a float."""
    c.need(2)
    kind = c.modifiers.type()
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & ((a == 0) | (np.abs(a) >= np.finfo(a.dtype).tiny)),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny),
    }
    test = tests[c.modifiers.pick(*tests)]
    c.modifiers.done()
    return emit(test, c.destination(c.operands[0], "pred"), c.source(c.operands[1], kind))


TABLE: dict[str, Callable[[Context], Op]] = {
    **{"add": add, "sub": add, "addc": carry.addc, "subc": carry.addc, "mul": mul, "mul24": mul},
    **{
        "mad": mad,
        "mad24": mad,
        "madc": mad,
        "fma": mad,
        "div": div,
        "rem": div,
        "min": minmax,
        "max": minmax,
    },
    **{"neg": negate, "abs": negate, "copysign": copysign, "testp": testp},
    **dict.fromkeys(_APPROXIMATE, special_function),
}
