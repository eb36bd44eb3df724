"""The compiled kernels that integration tests launch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gen.compile.toolchain import find_toolchain
from gen.ptx import Module


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Module:
    """kernels.cu, compiled to PTX by the packaged nvcc."""
    tools, folder = find_toolchain(), tmp_path_factory.mktemp("ptx")
    source, out = Path(__file__).with_name("kernels.cu"), folder / "kernels.ptx"
    command = [tools.nvcc, "-ccbin", tools.host_compiler, "-ptx", "-arch=sm_120a", "-o", out, source]
    subprocess.run(command, check=True, env=tools.environment(folder))
    return Module(out.read_text())
