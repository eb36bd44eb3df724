"""The catalogue's kernels, compiled by the packaged nvcc with source lines."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gen.compile.toolchain import find_toolchain
from gen.ptx import Module

FOLDER = Path(__file__).parent


@pytest.fixture(scope="session")
def compile_cuda(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Module]:
    """A function from a file of this folder, and flags, to its PTX module."""
    tools, folder = find_toolchain(), tmp_path_factory.mktemp("catalogue")

    def compile_(name: str, *flags: str) -> Module:
        out = folder / f"{name}{len(flags)}.ptx"
        command = [tools.nvcc, "-ccbin", tools.host_compiler, "-ptx", "-lineinfo", "-arch=sm_120a", *flags]
        subprocess.run([*command, "-o", out, FOLDER / name], check=True, env=tools.environment(folder))
        return Module(out.read_text())

    return compile_


@pytest.fixture(scope="session")
def faulty(compile_cuda: Callable[..., Module]) -> Module:
    """faulty.cu as it is."""
    return compile_cuda("faulty.cu")


@pytest.fixture(scope="session")
def fixed(compile_cuda: Callable[..., Module]) -> Module:
    """faulty.cu with every mistake repaired."""
    return compile_cuda("faulty.cu", "-DFIXED")


@pytest.fixture(scope="session")
def clean(compile_cuda: Callable[..., Module]) -> Module:
    """clean.cu."""
    return compile_cuda("clean.cu")
