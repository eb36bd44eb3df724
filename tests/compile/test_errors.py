"""One paragraph for each way a source can fail: what, where, the first error line, and a log that exists."""

from __future__ import annotations

import pytest

from gen.compile import CompileError, compile_source
from gen.compile.nvcc import parse_resources, split_flags
from gen.compile.result import Parameter
from gen.compile.signature import check_bounds, check_launch, declared_signature, read_signature
from tests.compile.conftest import SOURCES

AXPY = (SOURCES / "axpy.py").read_text()
STORE = "y[block * 128 + i] = alpha * x[block * 128 + i] + y[block * 128 + i]"


def failure(tmp_path, text: str, **options) -> CompileError:
    source = tmp_path / "broken.py"
    source.write_text(text)
    with pytest.raises(CompileError) as caught:
        compile_source(source, cache=tmp_path / "cache", **options)
    error = caught.value
    assert str(error).startswith("broken.py") and "\n" not in str(error)
    assert error.log is not None and str(error.log) in str(error)
    assert (error.log / "log.txt").read_text().strip()
    assert not list((tmp_path / "cache" / "scratch").iterdir())
    assert not list((tmp_path / "cache").glob("*.json"))
    return error


def test_python_error_names_the_line(tmp_path):
    error = failure(tmp_path, "x = 1\nKERNELS = (undefined,)\n")
    assert "line 2: NameError: name 'undefined' is not defined" in str(error)


def test_syntax_error_names_the_line(tmp_path):
    assert "line 2: SyntaxError" in str(failure(tmp_path, "x = 1\nKERNELS = (\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "KERNELS must be a tuple"),
        ("KERNELS = ()", "KERNELS must be a tuple"),
        ("KERNELS = ('missing',)", "lists 'missing', which is not a prim_func"),
        ("import os\nKERNELS = (os,)", "which is not a prim_func"),
        ("raise SystemExit(3)", "lowering died with exit status 3"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "lowering died with SIGSEGV"),
    ],
)
def test_a_file_that_is_no_kernel_source(tmp_path, text, message):
    assert message in str(failure(tmp_path, text))


def test_tilelang_error_names_the_kernel(tmp_path):
    error = failure(tmp_path, AXPY.replace("alpha: T.float32", "alpha: T.bfloat16"))
    assert error.kernel == "axpy"
    assert str(error).startswith("broken.py, kernel axpy: InternalError: Check failed")


def test_tma_descriptors_are_refused(tmp_path):
    text = (SOURCES / "gemm.py").read_text()
    error = failure(tmp_path, text.replace(": True", ": False"))
    assert 'CUtensorMap; set "tl.disable_tma_lower": True in PASS_CONFIGS' in str(error)


def test_nvcc_error_gives_its_first_error_line(tmp_path):
    text = AXPY.replace(STORE, 'y[block * 128 + i] = T.call_extern("float32", "no_such_function", alpha)')
    error = failure(tmp_path, text)
    assert error.kernel == "axpy"
    assert "nvcc failed" in str(error) and 'identifier "no_such_function" is undefined' in str(error)
    assert "no_such_function" in (error.log / "axpy.cu").read_text()


def test_missing_source_and_unknown_backend(tmp_path):
    with pytest.raises(CompileError, match=r"nothing\.py cannot be read: No such file"):
        compile_source(tmp_path / "nothing.py", cache=tmp_path)
    with pytest.raises(CompileError, match="no backend 'triton'; choose one of tilelang"):
        compile_source(SOURCES / "axpy.py", backend="triton", cache=tmp_path)


def test_unwritable_cache(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(CompileError, match=r"cannot be written: Not a directory\. Set KGEN_CACHE"):
        compile_source(SOURCES / "axpy.py", cache=blocked)


CUDA = 'extern "C" __global__ void __launch_bounds__(64, 1) f_kernel(const uchar* __restrict__ v, int n) {'
PTX = """.visible .entry f_kernel(
	.param .u64 .ptr .align 1 f_kernel_param_0,
	.param .u32 f_kernel_param_1
)
.maxntid 64
"""
DECLARED = [
    {"name": "p", "emitted": "v", "dtype": "handle"},
    {"name": "n", "emitted": "n", "dtype": "int32"},
]
PARAMETERS = (Parameter("p", "pointer"), Parameter("n", "i32"))


def test_signature_takes_the_declared_names():
    assert read_signature(CUDA, "f_kernel", DECLARED) == PARAMETERS
    check_launch(PTX, "f_kernel", PARAMETERS, 64, 0)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (DECLARED[:1], "'n' is not declared"),
        ([*DECLARED, {"name": "q", "emitted": "v", "dtype": "handle"}], "'v' stands for several"),
        ([DECLARED[0], DECLARED[1] | {"dtype": "int64"}], "declared as int64 and emitted as i32"),
    ],
)
def test_signature_against_the_declaration(declared, message):
    with pytest.raises(CompileError, match=message):
        read_signature(CUDA, "f_kernel", declared)


@pytest.mark.parametrize(
    ("old", "new", "threads", "shared", "message"),
    [
        (".param .u32", ".param .u64", 64, 0, r"parameter bytes: .* \[8, 4\], .* \[8, 8\]"),
        (",\n\t.param .u32 f_kernel_param_1", "", 64, 0, r"\[8, 4\], .* \[8\]"),
        (".param .u32 f_kernel_param_1", ".param .align 2 .b8 f_kernel_param_1[2]", 64, 0, r"\[8, 2\]"),
        (".maxntid 64", ".maxntid 32", 64, 0, "threads in PTX"),
        ("", "", 64, 16, "use of dynamic shared memory"),
        ("f_kernel(", "g_kernel(", 64, 0, "no entry f_kernel"),
    ],
)
def test_launch_against_the_ptx(old, new, threads, shared, message):
    with pytest.raises(CompileError, match=message):
        check_launch(PTX.replace(old, new), "f_kernel", PARAMETERS, threads, shared)


def test_launch_bounds_against_the_threads():
    check_bounds(CUDA, "f_kernel", 64)
    with pytest.raises(CompileError, match="threads of the launch bounds"):
        check_bounds(CUDA, "f_kernel", 32)


def test_declared_types():
    assert declared_signature([{"name": "p", "dtype": "handle"}]) == (Parameter("p", "pointer"),)
    with pytest.raises(CompileError, match="the parameter 'v' has the type float8_e4m3fn; use a scalar"):
        declared_signature([{"name": "v", "dtype": "float8_e4m3fn"}])


def test_resources_sum_what_was_not_inlined():
    used = parse_resources(
        "ptxas info    : Function properties for helper\n"
        "    32 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Function properties for f_kernel\n"
        "    16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 1 barriers, 48 bytes cumulative stack size, 256 bytes smem\n"
    )
    assert (used.registers, used.static_shared_bytes, used.stack_bytes) == (40, 256, 48)
    assert (used.spill_store_bytes, used.spill_load_bytes) == (12, 16)


def test_flags_reach_the_tool_that_knows_them():
    assert split_flags(
        ["-DX=1", "--ptxas-options=-O1,--warn-on-spills", "-Xptxas", "-v", "--use_fast_math"]
    ) == (
        ["-DX=1", "--use_fast_math"],
        ["-O1", "--warn-on-spills", "-v"],
    )
