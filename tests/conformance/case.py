"""What a conformance case is: PTX, inputs, an output and how the interpreter must agree with hardware."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.conformance import inputs
from tests.conformance.rules import EXACT, Rule

Array = npt.NDArray[Any]
UNWRITTEN = 0xA5  # every byte of an output before the launch

_HEADER = ".version 8.8\n.target {target}\n.address_size 64\n"
_REGISTERS = (
    ".reg .pred %p<20>; .reg .b16 %h<40>; .reg .b32 %r<100>; "
    ".reg .f32 %f<80>; .reg .b64 %q<60>; .reg .f64 %g<8>;"
)


@dataclass(frozen=True)
class Map:
    """A tensor map over an array of a case (-1: the output) of tile mode; sizes innermost first.

    kind: element type in PTX; shape: the tensor within the array, outermost first.
    """

    of: int
    kind: str
    shape: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str = "none"
    fill: str = "zeros"
    element_strides: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Case:
    """One entry. It takes a pointer to each input, a pointer to the output, then its tensor maps.

    The body finds the pointers in %in0, %in1, … and %out, and %tid.x in %r0; tensor maps are parameters
    map0, …
    """

    name: str
    body: str
    arrays: Callable[[], list[Array]]
    start: Callable[[], Array]
    rule: Rule = EXACT
    threads: int = 128
    blocks: int = 1
    declare: str = ""
    module: str = ""
    maps: tuple[Map, ...] = field(default=())
    value: str = "u32"
    """Type of the output's elements, for rules that read values."""

    @property
    def entry(self) -> str:
        """A PTX identifier made of the name."""
        return "k_" + re.sub(r"\W", "_", self.name)

    def text(self) -> str:
        """The entry, with the declarations of the module that it needs."""
        count = len(self.arrays())
        pointers = [f".param .u64 p{i}" for i in range(count + 1)]
        maps = [f".param .align 64 .b8 map{i}[128]" for i in range(len(self.maps))]
        names = [f"%in{i}" for i in range(count)] + ["%out"]
        loads = " ".join(f"ld.param.u64 {name}, [p{i}];" for i, name in enumerate(names))
        return (
            f"{self.module}\n.visible .entry {self.entry}({', '.join(pointers + maps)})\n{{\n{_REGISTERS}\n"
            f".reg .b64 {', '.join(names)};\n{self.declare}\n{loads}\n"
            f"mov.u32 %r0, %tid.x;\n{self.body}\nret;\n}}\n"
        )

    def digest(self) -> str:
        """A hash of everything that determines the output: text, launch and inputs."""
        data = hashlib.sha256(repr((self.text(), self.threads, self.blocks, self.maps)).encode())
        for array in (*self.arrays(), self.start()):
            data.update(repr((array.shape, array.dtype.str)).encode())
            data.update(array.tobytes())
        return data.hexdigest()[:16]


def module_text(cases: Sequence[Case], target: str) -> str:
    """A PTX file of several cases."""
    return _HEADER.format(target=target) + "".join(case.text() for case in cases)


def unwritten(kind: str, *shape: int) -> Callable[[], Array]:
    """An output that nothing has written."""
    dtype = np.dtype(f"u{inputs.WIDTHS[kind] // 8}")
    return lambda: (
        np.full(int(np.prod(shape)) * dtype.itemsize, UNWRITTEN, np.uint8).view(dtype).reshape(shape)
    )


def elementwise(
    name: str,
    code: str,
    takes: str,
    gives: str = "u32",
    *,
    count: int = 384,
    words: int = 1,
    rule: Rule = EXACT,
    module: str = "",
    data: Callable[[], list[Array]] | None = None,
) -> Case:
    """A case of one element a thread: operands in %a0, %a1, …, results in %d0, %d1, … of type `gives`.

    takes: kinds of the operands. Registers of `.f32` and `.f64` are of that type, others are bits; 8-bit ones
    are in 16.
    """
    kinds = takes.split()
    threads = min(count, 128)
    assert count % threads == 0
    lines = [f"mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, {threads}, %r0;"]
    declare = [_declared(f"%a{i}", kind) for i, kind in enumerate(kinds)]
    declare += [_declared(f"%d{i}", gives) for i in range(words)]
    for i, kind in enumerate(kinds):
        lines.append(f"mad.wide.u32 %q{i}, %r0, {inputs.WIDTHS[kind] // 8}, %in{i};")
        lines.append(f"ld.global.{_bits(kind)} %a{i}, [%q{i}];")
    lines.append("{ " + code + " }")
    size = inputs.WIDTHS[gives] // 8
    lines.append(f"mad.wide.u32 %q9, %r0, {size * words}, %out;")
    lines += [f"st.global.{_bits(gives)} [%q9+{i * size}], %d{i};" for i in range(words)]
    return Case(
        name,
        "\n".join(lines),
        data or (lambda: list(inputs.operands(takes, count))),
        unwritten(gives, count, words),
        rule,
        threads,
        count // threads,
        " ".join(declare),
        module,
        value=gives,
    )


def _bits(kind: str) -> str:
    return kind if kind in ("f32", "f64") else f"b{inputs.WIDTHS[kind]}"


def _declared(register: str, kind: str) -> str:
    kind = kind if kind in ("f32", "f64") else f"b{max(inputs.WIDTHS[kind], 16)}"
    return f".reg .{kind} {register};"


def operation(name: str, takes: str, gives: str, *, options: str = "", **more: Any) -> Case:
    """The case of one instruction with plain operands: `name %d0, %a0, %a1, …`, and `options` after them."""
    sources = ", ".join(f"%a{i}" for i in range(len(takes.split())))
    return elementwise(name, f"{name} %d0, {sources}{options};", takes, gives, **more)
