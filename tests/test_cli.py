"""The command line: exit statuses, messages of one paragraph, JSON, and what is left on disk."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gen import device
from gen.check.case import Case
from gen.check.session import SpecResult
from gen.cli import main
from gen.compile import Compiled, CompileError, Kernel

ROOT = Path(__file__).parents[1]
SPECS = ROOT / "specs"
WINDOW = SPECS / "deepseek_v4_flash/decode_window_h64.yaml"
H8 = SPECS / "deepseek_v4_flash/decode_h8.yaml"
COMMANDS = ["list", "check", "build", "fuzz", "sanitize", "schema"]


@dataclass
class Result:
    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    def paragraph(self, status: int) -> str:
        """The one paragraph of an error, after checking that it is one and that nothing else was printed."""
        assert self.status == status, self
        assert "Traceback" not in self.err
        (line,) = [line for line in self.err.splitlines() if line.lower().startswith("error: ")]
        assert self.err.rstrip().endswith(line), "the message is not the last thing printed"
        return line[len("error: ") :]


Kgen = Callable[..., Result]


@pytest.fixture
def kgen(monkeypatch, capsys, tmp_path) -> Kgen:
    """`kgen(*arguments)` in a new folder of its own."""
    monkeypatch.chdir(tmp_path)

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


def _kernel(name: str = "decode", spills: int = 0, shared: int = 71_000) -> Kernel:
    return Kernel(name, f"{name}_kernel", "sm_120a", "", "", b"", (), 256, 190, 0, shared, spills, 0, 0)


@pytest.fixture
def compiler(monkeypatch) -> dict[str, Compiled | CompileError]:
    """Stands for the compiler: a result by folder name, and one good kernel for all others."""
    results: dict[str, Compiled | CompileError] = {}

    def compile_many(sources, *, arch, backend, on_done):
        for source in sources:
            assert source.read_text().startswith("# SPDX")
            good = Compiled({"decode": _kernel()}, arch, 1.0, False)
            on_done(source, results.get(source.parent.name, good))

    monkeypatch.setattr("gen.pipeline.compile_many", compile_many)
    return results


def test_help(kgen):
    result = kgen("--help")
    assert result.status == 0
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", result.out, re.MULTILINE)
        own = kgen(command, "--help")
        assert own.status == 0
        assert f"kgen {command}" in own.out
        assert "--json" in own.out
    assert kgen("check", "--help").out.count("--device") == 1
    assert kgen("nonsense").paragraph(2).startswith("No such command 'nonsense'")
    assert kgen("list", "--nonsense").paragraph(2).startswith("No such option")


def test_list_says_what_is_built(kgen, tmp_path, compiler):
    def states() -> dict[str, str]:
        return {
            row["name"]: row["state"] for row in kgen("list", WINDOW, H8, "--out", "build", "--json").json
        }

    window, h8 = "dsv4_flash_window_h64", "dsv4_flash_decode_h8"
    assert states() == {window: "not built", h8: "not built"}
    assert not (tmp_path / "build").exists()
    assert kgen("build", WINDOW, H8).status == 0
    assert states() == {window: "current", h8: "current"}
    source = tmp_path / "build" / window / "kernel.py"
    source.write_text(source.read_text() + "\n")
    (tmp_path / "build" / h8 / "manifest.json").unlink()
    assert states() == {window: "stale", h8: "stale"}


def test_list_of_the_shipped_specs(kgen):
    rows = kgen("list", SPECS, "--out", ROOT / "build", "--json").json
    assert {row["state"] for row in rows} == {"current"}
    assert {(row["family"], row["backend"], row["target"]) for row in rows} == {
        ("sparse_mla_decode", "tilelang", "sm_120a"),
        ("fp8_block_gemm", "cutlass", "sm_120a"),
        ("fp8_block_gemm", "tilelang", "sm_120a"),
        ("mxfp4_moe", "cutlass", "sm_120a"),
    }
    table = kgen("list", SPECS, "--out", ROOT / "build").out.splitlines()
    assert table[0].split() == ["name", "family", "backend", "target", "state", "mma"]
    assert [line.split()[0] for line in table[1:]] == [row["name"] for row in rows]


def test_check_plans_for_sizes_and_devices(kgen):
    sizes = [
        "--size",
        "tokens=1",
        "--size",
        "main_width=128",
        "--size",
        "extra_width=512",
        "--size=extra_page=64",
    ]
    for name in device.names():
        h64 = SPECS / "deepseek_v4_flash/decode_h64.yaml"
        (row,) = kgen("check", h64, *sizes, "--device", name, "--json").json
        assert row["device"] == name
        assert row["sizes"] == {
            "tokens": 1, "main_page": 256, "main_width": 128, "extra_page": 64, "extra_width": 512
        }  # fmt: skip
        assert row["blocks"] >= 40
        assert row["grids"] == {"decode": [1, 2, row["splits"]], "combine": [1, 16, 1]}
        assert row["shared_bytes"] == 71_424
        assert row["tile"] == {"heads": 32, "keys": 32, "threads": 256}
    table = kgen("check", WINDOW).out.splitlines()
    assert table[1].split()[0] == "dsv4_flash_window_h64"
    assert "71,440" in table[1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["check", WINDOW, "--device", "rtx_9999"], "'rtx_9999' is not one of dgx_spark, h200"),
        (["fuzz", WINDOW, "--device", "../h200"], "'../h200' is not one of dgx_spark"),
        (["check", WINDOW, "--size", "tokens"], "'tokens' is not NAME=N, such as tokens=4"),
        (["check", WINDOW, "--size", "tokens=-1"], "is not NAME=N"),
        (["check", WINDOW, "--size", f"tokens={'9' * 5000}"], "is not NAME=N"),
        (
            ["check", WINDOW, "--size", "toknes=4"],
            "no spec here has 'toknes'; use main_page, main_width, tokens",
        ),
        (
            ["check", WINDOW, "--size", "tokens=70000"],
            "the size 70000 asked for is outside 0 to 65536; ask for 65536.",
        ),
        (["fuzz", WINDOW, "--on", "abacus"], "'abacus' is not an executor; use interpreter"),
        (["fuzz", WINDOW, "--jobs", "0"], "Invalid value for '--jobs'"),
        (["fuzz", WINDOW, "--examples", "-1"], "Invalid value for '--examples'"),
        (["fuzz", WINDOW, "--case", "{bad"], "a case is {"),
        (
            ["fuzz", WINDOW, "--case", '{"sizes": {}, "knobs": {}}'],
            "its sizes are main_page, main_width, tokens",
        ),
        (["list", "nowhere.yaml"], "nowhere.yaml: there is no such regular file; check the path."),
        (["build"], "specs: there is no such regular file"),
        (["build", "."], "the folder holds no .yaml file"),
    ],
    ids=range(15),
)
def test_a_wrong_argument_is_one_paragraph(kgen, tmp_path, arguments, text):
    assert text in kgen(*arguments).paragraph(2)
    assert list(tmp_path.iterdir()) == []


def _case(**sizes: int) -> str:
    knobs = {"values": "normal", "indices": "random", "stride": "padded", "far": False, "seed": 1}
    knobs |= {"lengths": "full", "sink": "normal"}
    return Case({"tokens": 1, "main_page": 256, "main_width": 3} | sizes, knobs).to_json()


def test_a_case_is_checked_against_each_spec(kgen, tmp_path):
    text = kgen("fuzz", WINDOW, "--case", _case(tokens=70000)).paragraph(2)
    assert "dsv4_flash_window_h64: the size tokens is 70000; use an integer from 0 to 65536" in text
    assert "dsv4_flash_decode_h8: its sizes are" in kgen("fuzz", WINDOW, H8, "--case", _case()).paragraph(2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["list", "check", "build", "fuzz"])
@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("heads: 64", "heads: 63", "shapes.heads: 63 is not a multiple of 8"),
        ("keys: 32", "keys: 128", "tile: a block would need"),
        ("backend: tilelang", "backend: cutlass", "backend: the family sparse_mla_decode has no template"),
        ("name: dsv4_flash_window_h64", "name: ../x", "name: '../x' is not a name"),
    ],
)
def test_a_bad_spec_ends_with_2_and_writes_nothing(kgen, tmp_path, compiler, command, old, new, where):
    bad = tmp_path / "bad.yaml"
    text = WINDOW.read_text()
    assert text.count(old) == 1
    bad.write_text(text.replace(old, new))
    paragraph = kgen(command, H8, bad).paragraph(2)
    line = next(at for at, text in enumerate(bad.read_text().splitlines(), 1) if new in text)
    assert paragraph.startswith(f"{bad}:{line}: {where}")
    assert "; use " in paragraph
    assert list(tmp_path.iterdir()) == [bad], "the good spec before it was built"


def test_build_reports_the_compiler_s_figures(kgen, compiler, tmp_path):
    result = kgen("build", WINDOW, "--out", "elsewhere", "--json")
    assert result.json == [
        {
            "name": "dsv4_flash_window_h64", "kernel": "decode", "arch": "sm_120a", "threads": 256,
            "registers": 190, "shared_bytes": 71_000, "spill_bytes": 0, "stack_bytes": 0, "seconds": 1.0,
            "from_cache": False,
        }
    ]  # fmt: skip
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "kernel.py",
        "manifest.json",
    ]
    assert (tmp_path / "elsewhere/dsv4_flash_window_h64").is_dir()
    assert "dsv4_flash_window_h64" in kgen("build", WINDOW).out


def test_a_failing_compile_is_reported_and_the_others_are_built(kgen, compiler):
    compiler["dsv4_flash_window_h64"] = CompileError("kernel.py: line 5: no. The full output is in /log.")
    result = kgen("build", WINDOW, H8, "--json")
    expected = "dsv4_flash_window_h64: kernel.py: line 5: no. The full output is in /log."
    assert result.paragraph(1) == expected
    assert [row["name"] for row in result.json] == ["dsv4_flash_decode_h8"]
    assert kgen("list", WINDOW, H8, "--json").json[0]["state"] == "current"


def test_a_spill_and_too_much_shared_memory_are_reported(kgen, compiler):
    kernels = {"decode": _kernel(spills=24), "combine": _kernel("combine", shared=101_377)}
    compiler["dsv4_flash_window_h64"] = Compiled(kernels, "sm_120a", 1.0, False)
    result = kgen("build", WINDOW, "--json")
    assert result.status == 1
    assert result.err.splitlines()[-2:] == [
        "error: dsv4_flash_window_h64: decode spills 24 B of registers",
        "error: dsv4_flash_window_h64: combine takes 101,377 B of shared memory, over 101,376",
    ]
    assert [row["spill_bytes"] for row in result.json] == [24, 0]


def test_a_folder_that_cannot_be_written_is_one_paragraph(kgen, tmp_path):
    (tmp_path / "file").write_text("")
    text = kgen("build", WINDOW, "--out", "file").paragraph(1)
    assert "file" in text
    assert kgen("schema", "--out", "nowhere/schema.json").paragraph(1).startswith("nowhere/schema.")


def _fuzzed(monkeypatch, failure: str | None = None) -> list[dict]:
    calls: list[dict] = []

    def fuzz_specs(prepared, build, card, **options):
        calls.append(options | {"device": card.name})
        options["on_progress"](1, 2)
        return {item.spec.name: SpecResult(3, 1.5, {"out": 1e-4}, failure) for item in prepared}

    monkeypatch.setattr("gen.check.session.fuzz_specs", fuzz_specs)
    return calls


def test_fuzz_reports_what_passed(kgen, monkeypatch):
    calls = _fuzzed(monkeypatch)
    result = kgen("fuzz", WINDOW, "--examples", 7, "--seed", 9, "--device", "dgx_spark", "--json")
    assert result.status == 0
    assert result.json == [
        {
            "name": "dsv4_flash_window_h64", "examples": 3, "out_rms_error": 1e-4, "seconds": 1.5,
            "state": "passed", "failure": None, "not_run": None,
        }
    ]  # fmt: skip
    assert (calls[0]["examples"], calls[0]["seed"], calls[0]["device"]) == (7, 9, "dgx_spark")
    assert kgen("fuzz", WINDOW, "--case", _case()).status == 0
    assert calls[1]["case"] == Case.from_json(_case())


def test_fuzz_ends_with_1_and_the_replay_command(kgen, monkeypatch):
    _fuzzed(monkeypatch, "window: out is wrong. Replay: kgen fuzz x.yaml --case '{}'")
    result = kgen("fuzz", WINDOW)
    assert result.paragraph(1) == "window: out is wrong. Replay: kgen fuzz x.yaml --case '{}'"
    assert result.out.splitlines()[1].split()[-1] == "failed"


def test_schema(kgen, tmp_path):
    committed = json.loads((SPECS / "schema.json").read_text())
    assert kgen("schema", "--json").json == committed
    assert list(tmp_path.iterdir()) == []
    assert kgen("schema", "--out", "mine.json").status == 0
    assert json.loads((tmp_path / "mine.json").read_text()) == committed
