# ruff: noqa: E501 - PTX bodies read better unbroken
"""Small PTX kernels for tests: a body in a header that declares registers and loads the parameters."""

from __future__ import annotations

import numpy as np

from gen.ptx import Kernel, Module, Report

_REGISTERS = """
    .reg .pred %p<32>;
    .reg .b16 %rs<64>;
    .reg .b32 %r<96>;
    .reg .f32 %f<64>;
    .reg .b64 %rd<96>;
    .reg .f64 %fd<32>;
"""


def assemble(body: str, params: str = "u64", module: str = "", declare: str = "") -> Kernel:
    """A kernel with parameters of the given types.

    Parameter i is in %rd(80+i), %r(80+i) or %f(50+i) by type; %r0 is %tid.x, %rd0 = 4 · (global thread index).
    """
    kinds = params.split()
    registers = {"u64": "%rd8{}", "u32": "%r8{}", "f32": "%f5{}"}
    loads = "\n".join(
        f"    ld.param.{kind} {registers[kind].format(i)}, [p{i}];" for i, kind in enumerate(kinds)
    )
    formal = ", ".join(f".param .{kind} p{i}" for i, kind in enumerate(kinds))
    text = f"""
.version 8.8
.target sm_120a
.address_size 64
{module}
.visible .entry kernel({formal})
{{
{_REGISTERS}
{declare}
{loads}
    mov.u32 %r0, %tid.x;
    mov.u32 %r90, %ctaid.x;
    mov.u32 %r91, %ntid.x;
    mad.lo.s32 %r92, %r90, %r91, %r0;
    mul.wide.u32 %rd0, %r92, 4;
{body}
    ret;
}}
"""
    return Module(text)["kernel"]


def line_of(kernel: Kernel, fragment: str) -> int:
    """The PTX line of the only instruction with this text."""
    lines = {
        placed.instruction.line
        for placed in kernel.translation.program.code
        if fragment in placed.instruction.text
    }
    (line,) = lines
    return line


def evaluate(instructions: str, *inputs: np.ndarray, out: str = "u4", blocks: int = 1) -> np.ndarray:
    """Runs instructions on one element a thread: inputs in %a0, %a1 … of their width, the result in %out.

    16-, 32- and 64-bit inputs of any kind; the result has NumPy type `out` and may be of another width.
    """
    n = len(inputs[0])
    assert n % blocks == 0 and n // blocks <= 1024
    loads, declare = [], []
    for i, array in enumerate(inputs):
        width = array.itemsize * 8
        loads += [
            f"mul.wide.u32 %rd{i + 1}, %r92, {array.itemsize};",
            f"add.s64 %rd{i + 1}, %rd{i + 1}, %rd8{i};",
        ]
        loads.append(f"ld.global.b{width} %a{i}, [%rd{i + 1}];")
        declare.append(f".reg .b{width} %a{i};")
    result = np.zeros(n, out)
    width = result.itemsize * 8
    last = len(inputs)
    body = "\n".join(
        [
            *loads,
            f"{{ {instructions} }}",
            f"mul.wide.u32 %rd20, %r92, {result.itemsize};",
            f"add.s64 %rd20, %rd20, %rd8{last};",
            f"st.global.b{width} [%rd20], %out;",
        ]
    )
    kernel = assemble(
        body, " ".join(["u64"] * (last + 1)), declare=" ".join([*declare, f".reg .b{width} %out;"])
    )
    kernel.launch((blocks,), (n // blocks,), [*inputs, result])
    return result


def total(report: Report) -> int:
    """All instructions that threads executed."""
    return sum(report.thread_instructions.values())
