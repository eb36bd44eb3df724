"""Integer arithmetic."""

from __future__ import annotations

from tests.conformance.case import Case, elementwise, operation

_TYPES = ("u16", "s16", "u32", "s32", "u64", "s64")
_SIGNED = ("s16", "s32", "s64")
_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def cases() -> list[Case]:
    out: list[Case] = []
    for t in _TYPES:
        two = [f"add.{t}", f"sub.{t}", f"mul.lo.{t}", f"mul.hi.{t}", f"min.{t}", f"max.{t}"]
        two += [f"div.{t}", f"rem.{t}"]
        out += [operation(name, f"{t} {t}", t) for name in two]
        out += [operation(name, f"{t} {t} {t}", t) for name in (f"mad.lo.{t}", f"mad.hi.{t}", f"sad.{t}")]
    for t, wide in _WIDE.items():
        out.append(operation(f"mul.wide.{t}", f"{t} {t}", wide))
        out.append(operation(f"mad.wide.{t}", f"{t} {t} {wide}", wide))
    for t in _SIGNED:
        out += [operation(f"neg.{t}", t, t), operation(f"abs.{t}", t, t)]
    out += [operation(f"{op}.sat.s32", "s32 s32", "s32") for op in ("add", "sub")]
    out += [operation(f"{op}.sat.s32", "s32 s32 s32", "s32") for op in ("mad.hi", "mad24.hi")]
    for t in ("u32", "s32"):
        for part in ("lo", "hi"):
            out.append(operation(f"mul24.{part}.{t}", f"{t} {t}", t))
            out.append(operation(f"mad24.{part}.{t}", f"{t} {t} {t}", t))
        for other in ("u32", "s32"):
            both = "u32" if t == other == "u32" else "s32"
            out.append(operation(f"dp4a.{t}.{other}", f"{t} {other} {both}", both))
            for half in ("lo", "hi"):
                out.append(operation(f"dp2a.{half}.{t}.{other}", f"{t} {other} {both}", both))
    for t in ("u16x2", "s16x2"):
        out += [operation(f"{op}.{t}", f"{t} {t}", "u32") for op in ("add", "min", "max")]
    out += [operation(f"{op}.relu.{t}", f"{t} {t}", "u32") for op in ("min", "max") for t in ("s16x2", "s32")]
    return out + _carries()


def _carries() -> list[Case]:
    """Chains of three words, so that each flag is set, used and both."""
    out = []
    for t in ("u32", "s32", "u64", "s64"):
        for op in ("add", "sub"):
            code = (
                f"{op}.cc.{t} %d0, %a0, %a1; {op}c.cc.{t} %d1, %a2, %a3; {op}c.cc.{t} %d2, %a1, %a2; "
                f"{op}c.{t} %d3, %a0, %a3;"
            )
            out.append(elementwise(f"{op}.cc {op}c.cc {op}c .{t}", code, f"{t} {t} {t} {t}", t, words=4))
        for first, last in (("lo", "hi"), ("hi", "lo")):
            code = (
                f"mad.{first}.cc.{t} %d0, %a0, %a1, %a2; madc.{last}.cc.{t} %d1, %a0, %a1, %a3; "
                f"madc.{first}.{t} %d2, %a2, %a3, %a0; addc.{t} %d3, %a0, %a1;"
            )
            name = f"mad.{first}.cc madc.{last}.cc madc.{first} .{t}"
            out.append(elementwise(name, code, f"{t} {t} {t} {t}", t, words=4))
    return out
