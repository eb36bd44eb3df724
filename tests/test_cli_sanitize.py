"""`kgen sanitize`: what it reports of specs and of PTX files, its arguments, and its exit statuses."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from gen.cli import main
from gen.cli.arguments import argument
from gen.ptx import Undefined

ROOT = Path(__file__).parents[1]
H8 = ROOT / "specs/deepseek_v4_flash/decode_h8.yaml"
HEADER = ".version 8.8\n.target sm_120a\n.address_size 64\n"
SCALE = """
.visible .entry scale(.param .u64 x, .param .u64 y, .param .f32 factor, .param .u32 n)
{
    .reg .pred %p<2>; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.f32 %f1, [factor]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x; setp.ge.u32 %p1, %r2, %r1; @%p1 bra END;
    mul.wide.u32 %rd3, %r2, 4; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
    .loc 1 7 1
    ld.global.f32 %f2, [%rd1]; mul.f32 %f2, %f2, %f1; st.global.f32 [%rd2], %f2;
END: ret;
}
.file 1 "scale.cu"
"""
OTHER = ".visible .entry nothing()\n{\n    ret;\n}\n"
SAME = """
.visible .entry same(.param .u64 y)
{
    .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [y]; mov.u32 %r1, 3; st.global.u32 [%rd1], %r1; ret;
}
"""


@dataclass
class Result:
    status: int
    out: str
    err: str

    def paragraph(self, status: int) -> str:
        """The one error paragraph on standard error."""
        assert self.status == status and "Traceback" not in self.err, self
        (line,) = [line for line in self.err.splitlines() if line.lower().startswith("error: ")]
        return line[len("error: ") :]


Kgen = Callable[..., Result]


@pytest.fixture
def kgen(monkeypatch, capsys, tmp_path) -> Kgen:
    """`kgen(*arguments)` in a folder that has scale.ptx, two.ptx and same.ptx."""
    monkeypatch.chdir(tmp_path)
    Path("scale.ptx").write_text(HEADER + SCALE)
    Path("two.ptx").write_text(HEADER + SCALE + OTHER)
    Path("same.ptx").write_text(HEADER + SAME)

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["kgen", *map(str, arguments)])
        status: object = 0
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
        assert isinstance(status, int)
        return Result(status, *capsys.readouterr())

    return call


def arguments(*texts: str) -> list[str]:
    return [part for text in texts for part in ("--arg", text)]


def run(
    kgen: Kgen, *texts: str, file: str = "scale.ptx", block: str = "64", options: tuple[str, ...] = ()
) -> Result:
    return kgen("sanitize", "--ptx", file, "--block", block, *arguments(*texts), *options)


def test_a_clean_launch_is_counted(kgen):
    result = run(kgen, "f32[64]=random", "f32[64]=undefined", "f32=1.5", "i32=60", options=("--json",))
    (row,) = json.loads(result.out)
    assert result.status == 0
    assert (row["name"], row["kernel"], row["state"], row["launches"]) == ("scale.ptx", "scale", "clean", 1)
    assert (row["global_read"], row["global_written"], row["fault"]) == (240, 240, None)
    assert row["instructions"] == 64 * 8 + 60 * 6
    assert "clean" in run(kgen, "f32[64]=zeros", "f32[64]=zeros", "f32=1", "i32=64").out


def test_a_fault_has_its_fields_and_status_1(kgen):
    result = run(kgen, "f32[64]=random", "f32[50]=undefined", "f32=1.5", "i32=60", options=("--json",))
    (row,) = json.loads(result.out)
    assert result.paragraph(1).startswith("scale: out of bounds at PTX line")
    assert row["state"] == row["fault"]["kind"] == "out of bounds"
    assert (row["fault"]["thread"], row["fault"]["source"]) == ([50, 0, 0], "scale.cu:7")
    assert row["fault"]["access"]["allocation"] == {
        "name": "argument 1",
        "size": 200,
        "offset": 200,
        "outside": 4,
    }
    result = run(kgen, "f32[64]=undefined", "f32[64]=undefined", "f32=1.5", "i32=60")
    assert "uninitialized read" in result.paragraph(1) and "uninitialized read" in result.out


def test_warnings_are_shown(kgen):
    result = run(kgen, "i32[1]=undefined", file="same.ptx")
    assert (
        result.status == 0 and "warning: same.ptx same: PTX line" in result.err and "same value" in result.err
    )


def test_files_and_null(kgen):
    np.save("x.npy", np.arange(64, dtype=np.float32))
    assert run(kgen, "@x.npy", "f32[64]=undefined", "f32=2", "i32=64").status == 0
    assert "null pointer" in run(kgen, "null", "f32[64]=undefined", "f32=2", "i32=64").paragraph(1)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["f32[64]=random"], "scale takes 4 arguments (u64, u64, f32, u32), got 1"),
        (["f32[64]=random", "g32[64]=zeros", "f32=1", "i32=1"], "'g32' is none of the types"),
        (["f32[64]=random", "f32[64]", "f32=1", "i32=1"], "'f32[64]' is no argument; write TYPE[SHAPE]="),
        (["f32[64]=lots", "f32[64]=zeros", "f32=1", "i32=1"], "'lots' is not a number"),
        (["u8[64]=0.5", "f32[64]=zeros", "f32=1", "i32=1"], "'0.5' is not an integer"),
        (["u8[64]=256", "f32[64]=zeros", "f32=1", "i32=1"], "256 does not fit uint8"),
        (["i32[64]=9..3", "f32[64]=zeros", "f32=1", "i32=1"], "the range 9..3 is empty"),
        (["f64[1000000x1000]=zeros", "f32[64]=zeros", "f32=1", "i32=1"], "8,000,000,000 bytes; at most"),
        (["@nothing.npy", "f32[64]=zeros", "f32=1", "i32=1"], "nothing.npy: No such file"),
        (["@scale.ptx", "f32[64]=zeros", "f32=1", "i32=1"], "scale.ptx: no array that numpy.save wrote"),
        (["f32[4]=zeros", "f32[64]=zeros", "f32[1]=zeros", "i32=1"], "argument 2 is an array"),
        (["f32[4]=zeros", "f32[64]=zeros", "f32=1", "f32=1.5"], "argument 3: the float 1.5"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_told_in_one_paragraph(kgen, texts, words):
    assert words in run(kgen, *texts).paragraph(2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--ptx", "two.ptx"], "name one of the entries of two.ptx: scale, nothing"),
        (["--ptx", "two.ptx", "--entry", "none"], "'none' is not an entry of two.ptx; it has scale, nothing"),
        (["--ptx", "same.ptx", "--grid", "0", "--arg", "null"], "'0' is not X, X,Y or X,Y,Z"),
        (["--ptx", "same.ptx", "--block", "2000", "--arg", "null"], "each from 1 to 1024"),
        (["--ptx", "same.ptx", "--block", "64,64", "--arg", "null"], "4096 threads a block"),
        (["--arg", "null"], "needs --ptx FILE"),
        (["--ptx", "same.ptx", "some.yaml"], "takes the place of specs"),
    ],
)
def test_wrong_options_are_told_in_one_paragraph(kgen, options, words):
    assert words in kgen("sanitize", *options).paragraph(2)


def test_ptx_that_cannot_be_read(kgen):
    assert kgen("sanitize", "--ptx", "missing.ptx").paragraph(1).startswith("missing.ptx: No such file")
    Path("cubin").write_bytes(b"\x7fELF\xff\xfe")
    assert "cubin is not text; pass PTX" in kgen("sanitize", "--ptx", "cubin").paragraph(2)
    Path("bad.ptx").write_text(HEADER + OTHER.replace("ret", "frobnicate %r1"))
    assert "'frobnicate' is not implemented" in kgen("sanitize", "--ptx", "bad.ptx").paragraph(2)


def test_an_entry_is_chosen(kgen):
    assert kgen("sanitize", "--ptx", "two.ptx", "--entry", "nothing").status == 0


def test_random_arguments_follow_the_seed():
    one, same, other = (argument("f32[100]=random", np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (one == same).all() and (one != other).any()


@pytest.mark.parametrize(
    ("text", "dtype", "low", "high"),
    [("u8[1000]=random", "u1", 0, 255), ("i32[3x5]=-2..9", "i4", -2, 9), ("f64[10,10]=0..1", "f8", 0, 1)],
)
def test_ranges_of_arrays(text, dtype, low, high):
    array = argument(text, np.random.default_rng(0))
    assert array.dtype == dtype and low <= array.min() < array.max() <= high
    assert array.ctypes.data % 256 == 0


def test_other_arguments():
    random = np.random.default_rng(0)
    assert (argument("i32[4]=arange", random) == np.arange(4)).all()
    assert (argument("f16[4]=1.5", random) == 1.5).all()
    assert argument("e4m3[8]=2", random).itemsize == 1
    assert argument("bf16=1", random) == b"\x80\x3f"
    assert (argument("i64=-7", random), argument("f32=0.5", random), argument("null", random)) == (
        -7,
        0.5,
        None,
    )
    undefined = argument("u16[2x3]=undefined", random)
    assert isinstance(undefined, Undefined) and undefined.array.shape == (2, 3)


def test_the_must_test_cases_of_a_spec_run(kgen, tmp_path):
    result = kgen("sanitize", H8, "--json")
    assert result.status == 0, result
    (row,) = json.loads(result.out)
    assert (row["name"], row["kernel"], row["state"]) == ("dsv4_flash_decode_h8", "decode", "clean")
    assert row["launches"] > 5 and row["shared_read"] > 0 and row["bank_conflicts"] > 0


def test_a_fault_of_a_spec_names_its_case(kgen, monkeypatch):
    from gen.ptx import Fault, Kernel

    def launch(self, *args, **kwargs):
        raise Fault("data race", "for this test", line=1, text="st", block=(0, 0, 0), thread=(0, 0, 0))

    monkeypatch.setattr(Kernel, "launch", launch)
    result = kgen("sanitize", H8, "--json")
    (row,) = json.loads(result.out)
    assert row["state"] == "data race"
    assert result.paragraph(1).startswith("dsv4_flash_decode_h8, case ") and "for this test" in result.err
