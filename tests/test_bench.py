"""What `kgen bench` measures, as far as that can be seen without a card."""

from dataclasses import asdict
from pathlib import Path

import pytest

from gen.bench.measure import Row, bench_module
from gen.cli import main
from gen.cli.bench import COLUMNS
from gen.spec import load

SPECS = Path(__file__).parents[1] / "specs/deepseek_v4_flash"


def test_sizes_lie_within_the_spec():
    wide, narrow = load(SPECS / "projections_fp32.yaml"), load(SPECS / "qkv_a.yaml")
    bench = bench_module(wide)
    assert {(s["n"], s["k"]) for s in bench.bench_sizes(narrow)} == {(1536, 4096)}
    sizes = bench.bench_sizes(wide)
    assert {(4096, 8192), (32768, 1024)} < {(s["n"], s["k"]) for s in sizes}
    assert {1, 4, 16} < {s["m"] for s in sizes}


def test_bytes_of_a_launch():
    spec = load(SPECS / "projections_fp32.yaml")
    moved = bench_module(spec).bench_bytes(spec, {"m": 2, "n": 256, "k": 512})
    assert moved == 2 * 512 + 256 * 512 + 4 * 4 * (2 + 2) + 2 * 256 * 2
    batched = load(SPECS / "wo_a.yaml")
    sizes = {"m": 1, "n": 1024, "k": 4096}
    assert bench_module(batched).bench_bytes(batched, sizes) == 8 * (4096 + 1024 * 4096 + 32 * 9 + 2048)


def test_the_columns_are_fields_of_a_row():
    assert set(COLUMNS) <= set(asdict(Row("x", "m=1", 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0)))


def test_no_card_is_an_error_of_one_paragraph(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["kgen", "bench", str(SPECS / "qkv_a.yaml")])
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    message = capsys.readouterr().err
    assert message.startswith("error: ") and "kgen pack" in message and message.count("\n") == 1
