"""Sources compiled once for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from gen.compile import Compiled, compile_source

SOURCES = Path(__file__).parent / "sources"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def axpy(cache: Path) -> Compiled:
    """The axpy source compiled as on a machine with nothing on PATH and CUDA_HOME unset."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")
        patch.delenv("CUDA_HOME", raising=False)
        return compile_source(SOURCES / "axpy.py", cache=cache)


@pytest.fixture(scope="session")
def gemm(cache: Path) -> Compiled:
    return compile_source(SOURCES / "gemm.py", cache=cache)


@pytest.fixture(scope="session")
def several(cache: Path) -> Compiled:
    return compile_source(SOURCES / "several.py", cache=cache)
