"""Deliberately wrong mixtures of experts: the fuzz must catch each."""

import pytest
from specs_under_test import ROOT

from gen.check.fuzz import fuzz

SPECS = ROOT / "specs/deepseek_v4_flash"
W4A16, W4A8 = SPECS / "moe_w4a16.yaml", SPECS / "moe_w4a8.yaml"

SPREAD = "cute.arch.prmt(shifted, word, "
SCALE = "scale_tile[row, part, stage]"
ORDER = "return half * intermediate + n"
WEIGHTED = "activated *= element(topk_weights, pair)[0]\n"
DOWN_STORE = "                if pair < pairs:\n                    for half"
PADDING = "pair = element(sorted_pairs, 0)[0]  # padding; no result uses it\n"
LAST = "if block * tile.pairs < element(num_tokens_post_padded, 0)[0]:"
SYNC = "        cute.arch.cp_async_wait_group(tile.stages - 2)\n        cute.arch.sync_threads()\n"
SCANNED = "    slots[thread] = end - padded\n"
HERE = "            if expert >= 0 and expert < experts:\n{%- if not before %}"
CLAMPED = "cute.arch.fmax(cute.arch.fmin(up, LIMIT, nan=True), -LIMIT, nan=True)"

SELECTED = "weight_scales[half], pair_scales[j], group)"
QUANTIZED = "    if expert >= 0 and expert < experts:\n        row = Int64(pair)"

WRONG = {
    "gate_and_up_exchanged": (W4A16, ORDER, "return (1 - half) * intermediate + n", "out"),
    "nibbles_swapped": (W4A16, SPREAD, "cute.arch.prmt(word, shifted, ", "out"),
    "scale_of_the_next_group": (W4A16, SCALE, "scale_tile[row, (part + 1) % 4, stage]", "out"),
    "weighted_twice": (W4A16, WEIGHTED, WEIGHTED + " " * 20 + WEIGHTED, "out"),
    "unweighted": (W4A16, WEIGHTED, "pass\n", "out"),
    "padding_stored": (
        W4A16,
        DOWN_STORE,
        DOWN_STORE.replace("pair < pairs", "pair <= pairs"),
        "out of bounds",
    ),
    "padding_read": (W4A16, PADDING, "pair = pair\n", "out of bounds"),
    "blocks_past_the_last": (W4A16, LAST, "if block >= 0:", "uninitialized|out of bounds"),
    "pairs_from_elsewhere_summed": (W4A16, HERE, HERE.replace("expert >= 0 and ", ""), "uninitialized|out"),
    "no_barrier_before_a_tile_is_read": (W4A16, SYNC, SYNC.split("\n")[0] + "\n", "pending copy|data race"),
    "experts_do_not_start_at_a_block": (W4A16, SCANNED, "    slots[thread] = end - count\n", "."),
    "up_not_clamped_below": (W4A16, CLAMPED, "cute.arch.fmin(up, LIMIT, nan=True)", "out"),
    "quantized_gate_and_up_exchanged": (W4A8, ORDER, "return (1 - half) * intermediate + n", "out"),
    "quantized_nibbles_swapped": (W4A8, "0x5140), cute", "0x4051), cute", "out"),
    "quantized_scale_of_the_next_group": (
        W4A8,
        SELECTED,
        SELECTED.replace("group)", "(group + 1) % 4)"),
        "out",
    ),
    "scales_of_the_other_rows": (W4A8, "part % 2 * 8 + lane_row", "(1 - part % 2) * 8 + lane_row", "out"),
    "scale_of_another_pair": (W4A8, "(j * 8 + lane_row, 0, stage)", "(j * 8 + part, 0, stage)", "out"),
    "scale_not_rounded_up": (W4A8, "+ 0x1FFFFF >> 23", ">> 23", "out"),
    "amax_of_half_a_group": (W4A8, "{32: 2, 128: 4}", "{32: 1, 128: 3}", "out"),
    "pairs_from_elsewhere_quantized": (
        W4A8,
        QUANTIZED,
        QUANTIZED.replace("expert >= 0 and ", ""),
        "uninitialized",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_fuzz_catches(operation, name: str):
    path, old, new, symptom = WRONG[name]
    report = fuzz(operation(path, (old, new)), examples=20)
    assert report.failure is not None, "nothing noticed"
    text = str(report.failure)
    assert any(word in text for word in symptom.split("|")), text
