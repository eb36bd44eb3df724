"""The compiled kernels that integration tests launch."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from gen.ptx import Module


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Module:
    """kernels.cu, compiled to PTX by the packaged nvcc."""
    spec = importlib.util.find_spec("nvidia.cu13")
    assert spec and spec.submodule_search_locations, (
        "the nvidia-cuda-nvcc package is a dependency of the project"
    )
    home = Path(next(iter(spec.submodule_search_locations)))
    out = tmp_path_factory.mktemp("ptx") / "kernels.ptx"
    source = Path(__file__).with_name("kernels.cu")
    subprocess.run(
        [home / "bin" / "nvcc", "-ptx", "-arch=sm_120a", "-o", out, source],
        check=True,
        env={**os.environ, "CUDA_HOME": str(home)},
    )
    return Module(out.read_text())
