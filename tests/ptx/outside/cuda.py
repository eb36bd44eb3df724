"""Compiles a CUDA C++ source of this folder to PTX, with mistakes put in."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gen.compile.toolchain import find_toolchain

HERE = Path(__file__).parent
Edit = tuple[str, str]


def edited(text: str, edits: tuple[Edit, ...]) -> str:
    """`text` with each (old, new) replaced, in turn; `old` must be in it exactly once."""
    for old, new in edits:
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in the source"
        text = text.replace(old, new)
    return text


def compile_to_ptx(name: str, folder: Path, *edits: Edit) -> str:
    """The PTX that nvcc makes of the edited source for sm_120a, by way of files in `folder`."""
    tools, source, out = find_toolchain(), folder / name, folder / "out.ptx"
    source.write_text(edited((HERE / name).read_text(), edits))
    command = [tools.nvcc, "-ccbin", tools.host_compiler, "-std=c++17", "-arch=sm_120a", "-ptx"]
    command += ["-lineinfo", "-I", HERE, "-o", out, source]
    subprocess.run(command, check=True, env=tools.environment(folder))
    return out.read_text()
