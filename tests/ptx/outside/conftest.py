"""Compiles the kernels of this folder, as they are and with mistakes put in."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gen.compile.toolchain import find_toolchain
from gen.ptx import Module

HERE = Path(__file__).parent
SPIN_LIMIT = 2000  # steps without progress: kernels this small never take so many
Edit = tuple[str, str]
CompileCuda = Callable[..., Module]


def edited(text: str, edits: tuple[Edit, ...]) -> str:
    """`text` with each (old, new) replaced; `old` must be in it exactly once."""
    for old, new in edits:
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in the source"
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="session")
def compile_cuda(tmp_path_factory: pytest.TempPathFactory) -> CompileCuda:
    """compile_cuda("name.cu", *edits): the module that nvcc makes of the edited source, once each."""
    tools, known = find_toolchain(), dict[tuple[str, tuple[Edit, ...]], Module]()

    def compile_cuda(name: str, *edits: Edit) -> Module:
        if (name, edits) not in known:
            folder = tmp_path_factory.mktemp("cuda")
            source, out = folder / name, folder / "out.ptx"
            source.write_text(edited((HERE / name).read_text(), edits))
            command = [tools.nvcc, "-ccbin", tools.host_compiler, "-std=c++17", "-arch=sm_120a", "-ptx"]
            command += ["-I", HERE, "-o", out, source]
            subprocess.run(command, check=True, env=tools.environment(folder))
            known[name, edits] = Module(out.read_text())
        return known[name, edits]

    return compile_cuda
