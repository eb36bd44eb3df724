"""The kernels of this folder, compiled as they are and with mistakes put in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gen.ptx import Module
from tests.ptx.outside.cuda import Edit, compile_to_ptx

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
