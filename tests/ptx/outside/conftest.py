"""The kernels of this folder, compiled as they are and with mistakes put in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from gen.ptx import Kernel, Module, Report
from tests.ptx.outside.compilers import Edit, compile_cute, compile_to_ptx

SPIN_LIMIT = 2000  # steps without progress: kernels this small never take so many
CompileCuda = Callable[..., Module]


@pytest.fixture(scope="session")
def compile_cuda(tmp_path_factory: pytest.TempPathFactory) -> CompileCuda:
    """compile_cuda("name.cu", *edits): the module of the edited source, compiled once each."""
    known: dict[tuple[str, tuple[Edit, ...]], Module] = {}

    def compile_cuda(name: str, *edits: Edit) -> Module:
        if (name, edits) not in known:
            known[name, edits] = Module(compile_to_ptx(name, tmp_path_factory.mktemp("cuda"), *edits))
        return known[name, edits]

    return compile_cuda


@dataclass
class CuteKernel:
    """A kernel that CuTe DSL compiled, with the shared memory its host code asks for."""

    kernel: Kernel
    shared_bytes: int

    def launch(self, grid: tuple[int, ...], threads: int, args: list[Any], **options: Any) -> Report:
        """Runs it; arguments as for `Kernel.launch`."""
        return self.kernel.launch(grid, (threads,), args, self.shared_bytes, spin_limit=SPIN_LIMIT, **options)


CompileCute = Callable[..., CuteKernel]


@pytest.fixture(scope="session")
def cute_kernel(tmp_path_factory: pytest.TempPathFactory) -> CompileCute:
    """cute_kernel("name.py", *edits): the kernel of the edited source, compiled once each."""
    known: dict[tuple[str, tuple[Edit, ...]], CuteKernel] = {}

    def cute_kernel(name: str, *edits: Edit) -> CuteKernel:
        if (name, edits) not in known:
            ptx, shared_bytes = compile_cute(name, tmp_path_factory.mktemp("cute"), *edits)
            module = Module(ptx)
            (entry,) = module.entries
            known[name, edits] = CuteKernel(module[entry], shared_bytes)
        return known[name, edits]

    return cute_kernel
