"""What a compiled kernel says of itself, against the compiler's own tools and the bytes it emitted."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gen.compile import Compiled, Parameter, compile_source, toolchain
from gen.compile.toolchain import find_toolchain
from tests.compile.conftest import SOURCES

RESERVED = 1024  # bytes of shared memory that cuobjdump counts and ptxas does not


def signature(compiled: Compiled, kernel: str) -> list[tuple[str, str]]:
    return [(p.name, p.type) for p in compiled.kernels[kernel].parameters]


def test_compiles_with_nothing_on_path(axpy):
    kernel = axpy.kernels["axpy"]
    assert not axpy.from_cache
    assert (kernel.name, kernel.entry, kernel.arch, kernel.threads) == ("axpy", "axpy_kernel", "sm_120a", 128)
    assert ".target sm_120a" in kernel.ptx
    assert kernel.cubin.startswith(b"\x7fELF")
    assert kernel.parameters == tuple(
        Parameter(*p) for p in [("x", "pointer"), ("y", "pointer"), ("alpha", "f32"), ("n", "i32")]
    )


def test_kernels_keep_the_order_of_the_source(several):
    assert list(several.kernels) == ["views", "scalars"]


def test_signature_order_is_the_emitted_one(gemm):
    assert signature(gemm, "gemm") == [
        *((name, "pointer") for name in "abc"),
        *((name, "i32") for name in "km"),
        ("scale", "f32"),
    ]


def test_view_does_not_rename_a_parameter_and_unread_ones_are_dropped(several):
    emitted = re.search(r"views_kernel\((.*)\) \{", several.kernels["views"].cuda)[1]
    assert re.search(r"\bpacked_(fp8|bf16)\b", emitted) and not re.search(r"\bpacked\b", emitted)
    assert signature(several, "views") == [
        ("out", "pointer"),
        ("packed", "pointer"),
        ("rows", "i32"),
        ("stride", "i32"),
    ]


def test_scalars_of_every_type(several):
    kinds = dict(signature(several, "scalars"))
    assert kinds.pop("out") == "pointer"
    assert kinds.pop("flag") == "bool"
    assert kinds == {name: name for name in kinds} and len(kinds) == 10


def test_resources_agree_with_cuobjdump(gemm, several, tmp_path):
    tool = find_toolchain().cuda_home / "bin" / "cuobjdump"
    for kernel in (gemm.kernels | several.kernels).values():
        path = tmp_path / "kernel.cubin"
        path.write_bytes(kernel.cubin)
        dump = subprocess.run(
            [tool, "--dump-resource-usage", path], capture_output=True, text=True, check=True
        ).stdout
        told = {key: int(value) for key, value in re.findall(r"\b(REG|STACK|SHARED):(\d+)", dump)}
        assert told == {
            "REG": kernel.registers,
            "STACK": kernel.stack_bytes,
            "SHARED": kernel.static_shared_bytes + (RESERVED if kernel.shared_bytes else 0),
        }
    assert gemm.kernels["gemm"].dynamic_shared_bytes == 2 * (32 * 32 + 64 * 32) * 2  # stages × tiles × bf16
    assert gemm.kernels["gemm"].shared_bytes == 12288
    assert several.kernels["scalars"].static_shared_bytes == 256


def test_spills_are_reported(cache):
    kernel = compile_source(SOURCES / "spilling.py", cache=cache).kernels["spilling"]
    assert kernel.registers <= 65536 // 1024
    assert kernel.spill_store_bytes > 0 and kernel.spill_load_bytes > 0 and kernel.stack_bytes > 0


def test_ptx_and_cubin_are_the_same_from_another_folder_and_another_environment(gemm, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-lineinfo")
    source = tmp_path / "other" / "name.py"
    source.parent.mkdir()
    source.write_bytes((SOURCES / "gemm.py").read_bytes())
    again = compile_source(source, cache=tmp_path / "cache")
    assert not again.from_cache
    assert "_INTERNAL_" in again.kernels["gemm"].ptx  # names that nvcc derives from the path
    assert again.kernels == gemm.kernels
    assert not (tmp_path / "home").exists()


def test_another_arch_compiles_the_same_cuda_text(axpy, cache):
    hopper = compile_source(SOURCES / "axpy.py", arch="sm_90a", cache=cache)
    assert not hopper.from_cache
    kernel = hopper.kernels["axpy"]
    assert kernel.cuda == axpy.kernels["axpy"].cuda
    assert kernel.arch == hopper.arch == "sm_90a" and ".target sm_90a" in kernel.ptx
    assert kernel.cubin != axpy.kernels["axpy"].cubin


def test_toolchain_names_versions():
    versions = toolchain()
    assert versions["tilelang"] == "0.1.15"
    assert versions["nvidia-cuda-nvcc"] == "13.0.88"


@pytest.mark.parametrize("arch", ["sm_120a; rm", "compute_90", "sm_"])
def test_an_arch_is_a_name(arch, tmp_path):
    with pytest.raises(Exception, match="is not an architecture"):
        compile_source(Path("unused.py"), arch=arch, cache=tmp_path)
