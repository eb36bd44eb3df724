"""Deliberately wrong mixtures of experts: the fuzz must catch each."""

import pytest
from specs_under_test import ROOT

from gen.check.fuzz import fuzz

W4A16 = ROOT / "specs/deepseek_v4_flash/moe_w4a16.yaml"

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

WRONG = {
    "gate_and_up_exchanged": (ORDER, "return (1 - half) * intermediate + n", "out"),
    "nibbles_swapped": (SPREAD, "cute.arch.prmt(word, shifted, ", "out"),
    "scale_of_the_next_group": (SCALE, "scale_tile[row, (part + 1) % 4, stage]", "out"),
    "weighted_twice": (WEIGHTED, WEIGHTED + " " * 20 + WEIGHTED, "out"),
    "unweighted": (WEIGHTED, "pass\n", "out"),
    "padding_stored": (DOWN_STORE, DOWN_STORE.replace("pair < pairs", "pair <= pairs"), "out of bounds"),
    "padding_read": (PADDING, "pair = pair\n", "out of bounds"),
    "blocks_past_the_last": (LAST, "if block >= 0:", "uninitialized|out of bounds"),
    "pairs_from_elsewhere_summed": (HERE, HERE.replace("expert >= 0 and ", ""), "uninitialized|out"),
    "no_barrier_before_a_tile_is_read": (SYNC, SYNC.split("\n")[0] + "\n", "pending copy|data race"),
    "experts_do_not_start_at_a_block": (SCANNED, "    slots[thread] = end - count\n", "."),
    "up_not_clamped_below": (CLAMPED, "cute.arch.fmin(up, LIMIT, nan=True)", "out"),
}


@pytest.mark.parametrize("name", WRONG)
def test_fuzz_catches(operation, name: str):
    old, new, symptom = WRONG[name]
    report = fuzz(operation(W4A16, (old, new)), examples=20)
    assert report.failure is not None, "nothing noticed"
    text = str(report.failure)
    assert any(word in text for word in symptom.split("|")), text
