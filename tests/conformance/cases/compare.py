"""Comparison and selection. A case holds every comparison of a type, one bit of the result each."""

from __future__ import annotations

from tests.conformance.case import Case, elementwise, operation

_EQUAL = ("eq", "ne")
_SIGNED = (*_EQUAL, "lt", "le", "gt", "ge")
_UNSIGNED = (*_SIGNED, "lo", "ls", "hi", "hs")
_FLOAT = (*_SIGNED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_COMPARISONS = {"b": _EQUAL, "u": _UNSIGNED, "s": _SIGNED, "f": _FLOAT}


def cases() -> list[Case]:
    out: list[Case] = []
    scalars = [f"{k}{n}" for k in "bus" for n in (16, 32, 64)]
    floats = ["f32", "ftz.f32", "f64", "f16", "ftz.f16", "bf16"]
    for t in (*scalars, *floats):
        kind = t.split(".")[-1]
        names = _COMPARISONS["f" if "f" in kind else kind[0]]
        for mode in ("", ".and", ".or", ".xor"):
            out.append(_setp(t, kind, names, mode))
        if kind == "bf16":
            continue
        for result in ("u32", "s32", "f32"):
            if kind != "f16":
                code = " ".join(f"set.{n}.{result}.{t} %d{i}, %a0, %a1;" for i, n in enumerate(names))
                out.append(
                    elementwise(
                        f"set.{result}.{t}", code, f"{kind} {kind}", result, words=len(names), count=256
                    )
                )
    for t in ("f16x2", "ftz.f16x2", "bf16x2"):
        out.append(_setp_packed(t))
    for result, t, kind in (
        *(
            ("f16", "f16", "f16"),
            ("u16", "f16", "f16"),
            ("f16x2", "f16x2", "f16x2"),
            ("u32", "f16x2", "f16x2"),
        ),
        *(("bf16", "bf16", "bf16"), ("u16", "bf16", "bf16"), ("bf16x2", "bf16x2", "bf16x2")),
        *(("u32", "bf16x2", "bf16x2"), ("f16x2", "ftz.f16x2", "f16x2"), ("f16", "u32", "u32")),
        ("f16", "s64", "s64"),
    ):
        names = _FLOAT if "f" in kind else _SIGNED
        code = " ".join(
            f"set.{n}{'.ftz' * ('ftz' in t)}.{result}.{kind} %d{i}, %a0, %a1;" for i, n in enumerate(names)
        )
        gives = {"f16x2": "u32", "bf16x2": "u32"}.get(result, result)
        out.append(
            elementwise(f"set.{result}.{t}", code, f"{kind} {kind}", gives, words=len(names), count=256)
        )
    for t in ("b16", "b32", "b64", "u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64"):
        code = f"setp.ne.u32 %p0|%p1, %a2, 0; selp.{t} %d0, %a0, %a1, %p0; selp.{t} %d1, %a0, %a1, %p1;"
        out.append(elementwise(f"selp.{t}", code, f"{t} {t} pred", t, words=2))
        for by in ("s32", "f32", "ftz.f32"):
            name = f"slct.ftz.{t}.f32" if by.startswith("ftz") else f"slct.{t}.{by}"
            out.append(operation(name, f"{t} {t} {by.split('.')[-1]}", t))
    return out


def _gather(count: int) -> str:
    """Predicates 0 to count-1 as bits of %d0."""
    steps = [f"selp.u32 %r2, {1 << i}, 0, %p{i}; or.b32 %d0, %d0, %r2;" for i in range(count)]
    return "mov.u32 %d0, 0; " + " ".join(steps)


def _setp(t: str, kind: str, names: tuple[str, ...], mode: str) -> Case:
    """Both results of each comparison, combined with a predicate or its negation."""
    ftz = ".ftz" if t.startswith("ftz") else ""
    combined = mode and ", %p19"
    half = [f"setp.{n}{mode}{ftz}.{kind} %p{i}, %a0, %a1{combined};" for i, n in enumerate(names)]
    code = f"setp.ne.u32 %p19, %a2, 0; {' '.join(half)} {_gather(len(names))}"
    second = "%p18" if "f16" in kind else "%p17|%p18"  # 16-bit floats have one result
    code += f" setp.eq{mode}{ftz}.{kind} {second}, %a0, %a1{mode and ', !%p19'};"
    code += " selp.u32 %r2, 65536, 0, %p18; or.b32 %d0, %d0, %r2;"
    return elementwise(f"setp{mode}.{t}", code, f"{kind} {kind} pred", count=768)


def _setp_packed(t: str) -> Case:
    ftz, kind = (".ftz" if t.startswith("ftz") else ""), t.split(".")[-1]
    steps = []
    for i, n in enumerate(_FLOAT):
        steps.append(f"setp.{n}{ftz}.{kind} %p0|%p1, %a0, %a1;")
        steps.append(f"selp.u32 %r2, {1 << i}, 0, %p0; or.b32 %d0, %d0, %r2;")
        steps.append(f"selp.u32 %r2, {1 << i + 16}, 0, %p1; or.b32 %d0, %d0, %r2;")
    return elementwise(f"setp.{t}", "mov.u32 %d0, 0; " + " ".join(steps), f"{kind} {kind}")
