"""Logic, shifts, bit fields and bytes."""

from __future__ import annotations

from tests.conformance.case import Case, elementwise, operation

_PRMT = ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16")


def cases() -> list[Case]:
    out: list[Case] = []
    for t in ("b16", "b32", "b64"):
        out += [operation(f"{op}.{t}", f"{t} {t}", t) for op in ("and", "or", "xor")]
        out += [operation(f"{op}.{t}", t, t) for op in ("not", "cnot")]
        out.append(operation(f"shl.{t}", f"{t} amount", t))
        for k in "ubs":
            out.append(operation(f"shr.{k}{t[1:]}", f"{t} amount", t))
    for t in ("b32", "b64"):
        out += [operation(f"{op}.{t}", t, "u32") for op in ("popc", "clz")]
        out.append(operation(f"brev.{t}", t, t))
        out.append(operation(f"bfi.{t}", f"{t} {t} amount amount", t, count=768))
    for t in ("u32", "s32", "u64", "s64"):
        out += [operation(f"bfind{shift}.{t}", t, "u32") for shift in ("", ".shiftamt")]
        out.append(operation(f"bfe.{t}", f"{t} amount amount", t, count=768))
    for side in "lr":
        for mode in ("wrap", "clamp"):
            out.append(operation(f"shf.{side}.{mode}.b32", "b32 b32 amount", "u32"))
    for mode in _PRMT:
        out.append(operation(f"prmt.b32{mode}", "b32 b32 b32", "u32"))
    out.append(_prmt_constants())
    out.append(operation("fns.b32", "b32 amount amount", "u32"))
    for mode in ("wrap", "clamp"):
        out.append(operation(f"bmsk.{mode}.b32", "amount amount", "u32"))
        out += [operation(f"szext.{mode}.{t}", f"{t} amount", t) for t in ("u32", "s32")]
    out += [_lop3(first) for first in range(0, 256, 32)]
    code = (
        "setp.ne.u32 %p0, %a0, 0; setp.ne.u32 %p1, %a1, 0; and.pred %p2, %p0, %p1; or.pred %p3, %p0, %p1; "
        "xor.pred %p4, %p0, %p1; not.pred %p5, %p0; selp.u32 %r1, 1, 0, %p2; selp.u32 %r2, 2, 0, %p3; "
        "selp.u32 %r3, 4, 0, %p4; selp.u32 %r4, 8, 0, %p5; or.b32 %r1, %r1, %r2; or.b32 %r3, %r3, %r4; "
        "or.b32 %d0, %r1, %r3;"
    )
    out.append(elementwise("and.pred or.pred xor.pred not.pred", code, "pred pred"))
    return out


def _lop3(first: int) -> Case:
    code = " ".join(f"lop3.b32 %d{i}, %a0, %a1, %a2, {first + i};" for i in range(32))
    name = f"lop3.b32 tables {first} to {first + 31}"
    return elementwise(name, code, "b32 b32 b32", count=32, words=32)


def _prmt_constants() -> Case:
    selectors = (
        0x3210,
        0x7654,
        0x5410,
        0x7632,
        0x0123,
        0x4567,
        0x8888,
        0xFEDC,
        0xBA98,
        0x9180,
        0x4440,
        0x00F7,
    )
    code = " ".join(f"prmt.b32 %d{i}, %a0, %a1, {s};" for i, s in enumerate(selectors))
    return elementwise("prmt.b32 literal selectors", code, "b32 b32", words=len(selectors), count=128)
