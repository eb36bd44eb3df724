"""A tile either plans or is refused before any compiler runs, with numbers and a fix that leads to a plan."""

import itertools
import re
from pathlib import Path

import pytest

from gen.compile import compile_source
from gen.families.sparse_mla_decode import plan
from gen.pipeline import prepare
from gen.plan import SHARED_BYTES_PER_BLOCK
from gen.render import write
from gen.spec import SpecError, load

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "specs/deepseek_v4_flash/decode_h64.yaml"
TILES = list(itertools.product((16, 32, 64), (16, 32, 64, 128), (128, 256, 512)))


def _spec(folder: Path, layout: str, combine: str, heads: int, keys: int, threads: int):
    text = SHIPPED.read_text(encoding="utf-8")
    for key, value in (("layout", layout), ("  combine", combine)):
        text, count = re.subn(rf"^{key}: .*$", f"{key}: {value}", text, flags=re.MULTILINE)
        assert count == 1
    tile = f"tile: {{heads: {heads}, keys: {keys}, threads: {threads}}}"
    text, count = re.subn(r"^tile: .*$", tile, text, flags=re.MULTILINE)
    assert count == 1
    path = folder / "x.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path)


def _applied(fix: str, heads: int, keys: int, threads: int) -> tuple[int, int, int]:
    """The tile after what the fix says, read as a user would."""
    if both := re.fullmatch(r"use heads: (\d+) and keys: (\d+)", fix):
        return int(both[1]), int(both[2]), threads
    if one := re.fullmatch(r"use keys: (\d+)", fix):
        return heads, int(one[1]), threads
    found = re.fullmatch(r"use (\d+) threads", fix)
    assert found, fix
    return heads, keys, int(found[1])


@pytest.mark.parametrize("layout", ["v4", "v32"])
@pytest.mark.parametrize("combine", ["kernel", "last_block"])
def test_every_tile_plans_or_its_fix_does_within_three_steps(tmp_path, layout, combine):
    planned = 0
    for first in TILES:
        tile, seen = first, []
        while True:
            spec = _spec(tmp_path, layout, combine, *tile)
            try:
                tile_plan = plan(spec)
                break
            except SpecError as error:
                seen.append(error)
                tile = _applied(error.fix, *tile)
            assert len(seen) <= 3, [str(error) for error in seen]
        planned += not seen
        assert tile_plan.shared_bytes <= SHARED_BYTES_PER_BLOCK
        for error in seen:
            assert error.path == spec.path
            assert error.field in ("tile", "tile.threads")
            line = spec.path.read_text().splitlines()[error.line - 1]
            assert line.startswith("tile:")
            assert len(re.findall(r"\d+", error.reason)) >= 2, "without numbers"
            assert "\n" not in str(error)
    assert 5 <= planned < len(TILES)


@pytest.mark.parametrize(
    ("tile", "reason", "fix"),
    [
        (
            (64, 64, 256),
            "144,896 B of shared memory (q_tile 65,536, latent 65,536",
            "use heads: 64 and keys: 16",
        ),
        ((16, 16, 128), "4 warps cannot share the 2 fragments of 16×8 in 16×16 scores", "use keys: 32"),
        ((32, 32, 512), "16 warps cannot share the 8 fragments", "use 256 threads"),
        ((64, 16, 128), "hold 256 accumulators, more than 128, and spill", "use 256 threads"),
        ((16, 64, 128), "gather 28 vectors of a tile, more than the 16 that compile", "use 256 threads"),
    ],
)
def test_refusals(tmp_path, tile, reason, fix):
    spec = _spec(tmp_path, "v4", "kernel", *tile)
    with pytest.raises(SpecError) as caught:
        plan(spec)
    assert reason in caught.value.reason
    assert caught.value.fix == fix
    where = f"{spec.path}:{caught.value.line}: {caught.value.field}: "
    assert str(caught.value).startswith(where)


def test_shared_memory_is_refused_by_the_byte(tmp_path, monkeypatch):
    spec = _spec(tmp_path, "v4", "kernel", 32, 32, 256)
    needed = plan(spec).shared_bytes
    monkeypatch.setattr("gen.plan.SHARED_BYTES_PER_BLOCK", needed)
    plan(spec)
    monkeypatch.setattr("gen.plan.SHARED_BYTES_PER_BLOCK", needed - 1)
    with pytest.raises(SpecError, match=f"{needed:,} B of shared memory"):
        plan(spec)


@pytest.mark.parametrize("name", ["deepseek_v4_flash/decode_window_h64", "deepseek_v32/decode_h128"])
def test_planned_shared_memory_is_the_compiled_within_two_percent(tmp_path, name):
    (item,) = prepare([ROOT / f"specs/{name}.yaml"])
    write(item.rendered.files, tmp_path)
    compiled = compile_source(tmp_path / "kernel.py")
    used = max(kernel.shared_bytes for kernel in compiled.kernels.values())
    assert used <= item.plan.shared_bytes <= used * 1.02
    assert {kernel.threads for kernel in compiled.kernels.values()} >= {item.plan.threads}
