"""Splits cover the work once, whatever the sizes and the card; launches stay within CUDA's limits."""

import math
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gen import device
from gen.families.sparse_mla_decode import launch_plan, plan
from gen.families.sparse_mla_decode.options import Combine
from gen.families.sparse_mla_decode.spec import MAX_WIDTH
from gen.plan import BLOCK_TILES, MERGE_TILES, SharedBuffer, Splits, plan_splits, shared_bytes
from gen.spec import Fixed, RunTimeSize, SplitWord, bounds, load
from gen.values import INT32_MAX, MAX_SPLITS

SPECS = Path(__file__).parents[1] / "specs"
FLASH = load(SPECS / "deepseek_v4_flash/decode_h64.yaml")
H8 = load(SPECS / "deepseek_v4_flash/decode_h8.yaml")

WORK = {"tiles": st.integers(0, 3000), "rows": st.integers(1, 10**6), "slots": st.integers(1, 2000)}
STRATEGIES = st.sampled_from(SplitWord) | st.builds(Fixed, fixed=st.integers(1, MAX_SPLITS))
DEVICES = pytest.mark.parametrize("card", [device.load(name) for name in device.names()], ids=device.names())
many = settings(max_examples=200)


@many
@given(STRATEGIES, st.fixed_dictionaries(WORK))
def test_splits_cover_every_tile_once(strategy, work):
    splits, tiles = plan_splits(strategy, **work), work["tiles"]
    # The kernel's loop: split s walks the tiles from s * tiles_per_split up to the next split's, or the end.
    starts = [split * splits.tiles_per_split for split in range(splits.count)]
    walked = [list(range(start, min(start + splits.tiles_per_split, tiles))) for start in starts]
    assert list(chain.from_iterable(walked)) == list(range(tiles))
    assert all(walked) or tiles == 0, "a split without a tile"
    assert 1 <= splits.count <= max(tiles, 1)
    assert splits.blocks == work["rows"] * splits.count
    assert 0 < splits.last_wave_fill <= 1
    full = (splits.waves - 1) * work["slots"]
    assert full + round(splits.last_wave_fill * work["slots"]) == splits.blocks
    assert plan_splits(strategy, **work) == splits


@many
@given(st.fixed_dictionaries(WORK))
def test_none_keeps_one_block_a_row(work):
    splits = plan_splits(SplitWord.NONE, **work)
    assert (splits.count, splits.tiles_per_split) == (1, max(work["tiles"], 1))


@many
@given(st.integers(1, MAX_SPLITS), st.fixed_dictionaries(WORK))
def test_fixed_divides_as_evenly_as_its_number_allows(number, work):
    splits, tiles = plan_splits(Fixed(fixed=number), **work), max(work["tiles"], 1)
    assert splits.count <= number
    assert number * (splits.tiles_per_split - 1) < tiles, "fewer tiles a block would do"
    if number >= tiles:
        assert (splits.count, splits.tiles_per_split) == (tiles, 1)
    if tiles % number == 0:
        assert (splits.count, splits.tiles_per_split) == (number, tiles // number)


def _cost(splits: Splits) -> float:
    return splits.waves * (splits.tiles_per_split + BLOCK_TILES) + MERGE_TILES * splits.count


@many
@given(st.integers(1, MAX_SPLITS), st.fixed_dictionaries(WORK))
def test_waves_is_no_worse_than_any_fixed_number(number, work):
    best = plan_splits(SplitWord.WAVES, **work)
    for other in (plan_splits(SplitWord.NONE, **work), plan_splits(Fixed(fixed=number), **work)):
        assert _cost(best) <= _cost(other)
        if _cost(best) == _cost(other):
            assert best.count <= other.count


@DEVICES
def test_one_token_of_flash_fills_the_card(card):
    sizes = {"tokens": 1, "main_page": 256, "main_width": 128, "extra_page": 64, "extra_width": 512}
    launch = launch_plan(FLASH, sizes, card)
    assert launch.splits.waves == 1
    # 640 keys in tiles of 32, for two head blocks.
    assert launch.splits.blocks >= min(40, card.sms)
    assert launch.launches[0].grid == (1, 2, launch.splits.count)


@DEVICES
@given(st.data())
def test_grids_stay_within_cuda_limits_over_all_sizes(card, data):
    heads = data.draw(st.sampled_from(range(8, 129, 8)))
    shapes = FLASH.shapes.model_copy(update={"heads": heads, "tokens": RunTimeSize(min=1, max=INT32_MAX)})
    keys = data.draw(st.sampled_from([32, 64]))
    tile = FLASH.tile.model_copy(update={"heads": 16, "keys": keys, "threads": 4 * keys})
    features = FLASH.features.model_copy(update={"combine": data.draw(st.sampled_from(Combine))})
    changes = {"shapes": shapes, "tile": tile, "features": features, "split": data.draw(STRATEGIES)}
    spec = FLASH.model_copy(update=changes)
    widths = st.sampled_from([0, 1, MAX_WIDTH]) | st.integers(0, MAX_WIDTH)
    sizes = {
        "tokens": data.draw(st.sampled_from([1, INT32_MAX]) | st.integers(1, INT32_MAX)),
        "main_page": 256,
        "main_width": data.draw(widths),
        "extra_page": 64,
        "extra_width": data.draw(widths),
    }
    for launch in launch_plan(spec, sizes, card).launches:
        x, y, z = launch.grid
        assert 1 <= x < 2**31
        assert 1 <= y <= 65_535
        assert 1 <= z <= 65_535
        assert launch.threads in (128, 256, 512)


def test_launch_plan_with_a_merging_kernel():
    sizes = {"tokens": 3, "main_page": 256, "main_width": 128, "extra_page": 64, "extra_width": 512}
    launch = launch_plan(FLASH, sizes, device.load("rtx_pro_6000"))
    count = launch.splits.count
    assert [(part.kernel, part.grid, part.threads) for part in launch.launches] == [
        ("decode", (3, 2, count), 256),
        ("combine", (3, 16, 1), 128),
    ]
    assert launch.scalars == sizes | {"splits": count, "tiles_per_split": launch.splits.tiles_per_split}
    assert {name: buffer.shape for name, buffer in launch.scratch.items()} == {
        "partial_out": (3, count, 64, 512),
        "partial_max": (3, count, 64),
        "partial_sum": (3, count, 64),
    }
    assert not any(buffer.zeroed for buffer in launch.scratch.values())
    assert launch.scratch_bytes == 4 * 3 * count * 64 * 514


def test_launch_plan_with_a_merging_last_block_pads_heads():
    sizes = {"tokens": 2, "main_page": 256, "main_width": 128, "extra_page": 2, "extra_width": 0}
    launch = launch_plan(H8, sizes, device.load("rtx_pro_6000"))
    assert [part.kernel for part in launch.launches] == ["decode"]
    assert launch.scratch["partial_out"].shape == (2, launch.splits.count, 16, 512)
    arrivals = launch.scratch["arrivals"]
    assert (arrivals.shape, arrivals.dtype, arrivals.zeroed) == ((2, 1), "int32", True)


def test_launch_plan_without_a_split_needs_no_scratch():
    spec = FLASH.model_copy(update={"split": SplitWord.NONE})
    sizes = {name: bounds(getattr(spec.shapes, name))[1] for name in spec.shapes.model_fields_set - {"heads"}}
    launch = launch_plan(spec, sizes, device.load("rtx_pro_6000"))
    assert [(part.kernel, part.grid) for part in launch.launches] == [("decode", (65536, 2, 1))]
    assert launch.scratch == {}
    assert launch.splits.tiles_per_split == 128 // 32 + 8192 // 32
    assert plan(spec).kernels == ("decode",)


def test_no_keys_still_launch_one_block_a_row():
    sizes = {"tokens": 1, "main_page": 256, "main_width": 0, "extra_page": 64, "extra_width": 0}
    assert launch_plan(FLASH, sizes, device.load("h200")).launches[0].grid == (1, 2, 1)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=3), st.sampled_from([1, 2, 4, 8]))
def test_a_shared_buffer_takes_whole_vectors(shape, element_bytes):
    buffer = SharedBuffer("x", tuple(shape), element_bytes)
    assert buffer.bytes % 16 == 0
    assert 0 <= buffer.bytes - math.prod(shape) * element_bytes < 16
    assert shared_bytes([buffer, buffer]) == 2 * buffer.bytes


@DEVICES
@given(threads=st.sampled_from([32, 64, 128, 256, 512, 1024]), taken=st.integers(0, 101_376))
def test_resident_blocks_fit_an_sm(card, threads, taken):
    blocks = card.blocks_per_sm(threads, taken)
    registers = min(255, card.registers_per_sm // threads) // 8 * 8
    fits = [
        count * threads <= card.threads_per_sm
        and count * (taken + 1024) <= card.shared_bytes_per_sm
        and count * threads * registers <= card.registers_per_sm
        for count in (blocks, blocks + 1)
    ]
    assert fits == [True, False]


def test_unknown_device():
    assert {"rtx_pro_6000", "rtx_5090", "dgx_spark", "h200"} <= set(device.names())
    for name in ("rtx_9999", "../devices/h200", ""):
        with pytest.raises(KeyError):
            device.load(name)
