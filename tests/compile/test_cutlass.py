"""CuTe DSL sources behind the same compile function: signature, resources, architectures and errors."""

from __future__ import annotations

import numpy as np
import pytest

from gen.compile import CompileError, Parameter, compile_source
from gen.compile.lower_cutlass import dynamic_shared_bytes
from gen.ptx import Module
from tests.compile.conftest import SOURCES

SCALE = SOURCES / "scale_cute.py"


@pytest.fixture(scope="module")
def scale(cache):
    return compile_source(SCALE, backend="cutlass", cache=cache)


def test_signature_and_resources(scale):
    kernel = scale.kernels["scale"]
    assert kernel.parameters == tuple(
        Parameter(*p)
        for p in [("y", "pointer"), ("x", "pointer"), ("alpha", "f32"), ("n", "i32"), ("offset", "i64")]
    )
    assert (kernel.threads, kernel.dynamic_shared_bytes, kernel.spill_store_bytes) == (64, 256, 0)
    assert kernel.cuda == "" and ".target sm_120a" in kernel.ptx
    assert kernel.cubin.startswith(b"\x7fELF") and 0 < kernel.registers < 64


def test_runs_in_the_interpreter(scale):
    kernel = scale.kernels["scale"]
    x, y = np.arange(108, dtype=np.float32), np.zeros(100, np.float32)
    entry = Module(kernel.ptx)[kernel.entry]
    entry.launch((2,), (64,), [y, x, 0.5, 100, 8], shared_bytes=kernel.dynamic_shared_bytes)
    assert (y == x[8:] / 2).all()


def test_other_architecture_and_cache(scale, cache):
    assert not scale.from_cache
    assert compile_source(SCALE, backend="cutlass", cache=cache).from_cache
    hopper = compile_source(SCALE, backend="cutlass", arch="sm_90a", cache=cache)
    assert ".target sm_90a" in hopper.kernels["scale"].ptx


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("KERNELS = (scale,)", "KERNELS = ()", "KERNELS must be a tuple of @cute.jit functions"),
        ("KERNELS = (scale,)", "KERNELS = (scale, scale)", "different names"),
        ('"x": (Float32, 16)', '"z": (Float32, 16)', "KeyError: 'x'"),
        ("tile[thread] = cute", "tile[thread] = no_such_name", "line 18: .*no_such_name"),
        ("block=(THREADS, 1, 1)", "block=(THREADS, 2, 1)", r"a block of \[64, 2, 1\] threads"),
    ],
)
def test_errors_of_a_source(tmp_path, old, new, message):
    source = tmp_path / "broken.py"
    text = SCALE.read_text()
    assert old in text
    source.write_text(text.replace(old, new))
    with pytest.raises(CompileError, match=message):
        compile_source(source, backend="cutlass", cache=tmp_path / "cache")


def test_launch_without_a_known_configuration():
    with pytest.raises(ValueError, match="no constant size of shared memory"):
        dynamic_shared_bytes("llvm.func @launch() { llvm.return }")
