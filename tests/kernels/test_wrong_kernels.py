"""Deliberately wrong kernels: the fuzz must catch each, or it proves nothing about the right ones."""

from dataclasses import replace

import pytest
from specs_under_test import ROOT

from gen.check.fuzz import fuzz
from gen.check.properties import PropertyError, check
from gen.run.interpreter import Interpreter

KERNEL_COMBINE = ROOT / "specs/deepseek_v4_flash/decode_h32.yaml"
LAST_BLOCK = ROOT / "specs/deepseek_v4_flash/decode_h16.yaml"
RECORDS = ROOT / "specs/deepseek_v32/decode_h128.yaml"

LENGTH = "T.min({{ cache.name }}_lengths[token], {{ cache.width }})"
VALID = 'T.if_then_else(index >= 0, T.float32(0), -T.infinity("float32"))'
SCALE = "scale[k, v // (GROUP // 8)]"
SINK = " + T.exp2(sink_log2 - row_max[h])"
MERGE_WEIGHT = " * T.exp2(\n            partial_max[token, part, head0 + h] - factor[h]\n        )"
RESET = "arrivals[token, head_block] = 0"
STRIDE = 'T.cast(T.max(index, 0) // {{ cache.page }}, "int64") * {{ cache.name }}_page_vectors'
SYNC = "PASS_CONFIGS = {"

WRONG = {
    "length_off_by_one": (KERNEL_COMBINE, LENGTH, LENGTH.replace("[token]", "[token] + 1"), "out"),
    "missing_sink": (KERNEL_COMBINE, SINK, "", "out"),
    "merge_forgets_the_maximum": (KERNEL_COMBINE, MERGE_WEIGHT, "", "out"),
    "last_block_merge_forgets_the_maximum": (LAST_BLOCK, MERGE_WEIGHT, "", "out"),
    "scales_shifted_by_a_group": (KERNEL_COMBINE, SCALE, "scale[k, (v // (GROUP // 8) + 1) % 7]", "out"),
    "record_scales_shifted_by_a_group": (RECORDS, SCALE, "scale[k, (v // (GROUP // 8) + 1) % 4]", "out"),
    "missing_barriers": (
        KERNEL_COMBINE,
        SYNC,
        'PASS_CONFIGS = {\n    "tl.disable_thread_storage_sync": True,',
        "uninitialized read|data race",
    ),
    "invalid_index_gathers_slot_0": (KERNEL_COMBINE, VALID, "T.float32(0)", "out|out of bounds"),
    "page_stride_assumed": (
        KERNEL_COMBINE,
        STRIDE,
        STRIDE.replace("{{ cache.name }}_page_vectors", "({{ cache.page }} * 73)"),
        "out of bounds|out",
    ),
    "arrivals_not_reset": (LAST_BLOCK, RESET, "pass", "arrivals"),
    "score_scaled_twice": (
        KERNEL_COMBINE,
        "scores[h, k] * scale_log2",
        "scores[h, k] * scale_log2 * 1.01",
        "out|lse",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_fuzz_catches(operation, name: str):
    path, old, new, symptom = WRONG[name]
    report = fuzz(operation(path, (old, new)), examples=20)
    assert report.failure is not None, "nothing noticed"
    text = str(report.failure)
    assert any(word in text for word in symptom.split("|")), text
    assert f"kgen fuzz {path} --case '" in text


def test_barriers_removed_one_by_one(operation):
    """Without a barrier a kernel races, and the interpreter says so, or the barrier was one too many."""
    right = operation(KERNEL_COMBINE)
    kernel = right.compiled.kernels["decode"]
    lines = kernel.ptx.split("\n")
    barriers = [at for at, line in enumerate(lines) if line.strip().startswith("bar.sync")]
    case = right.family.must_test(right.spec)["many_splits"]
    reported = 0
    for at in barriers:
        ptx = "\n".join([*lines[:at], *lines[at + 1 :]])
        kernels = {**right.compiled.kernels, "decode": replace(kernel, ptx=ptx)}
        wrong = replace(right, compiled=replace(right.compiled, kernels=kernels), executor=Interpreter())
        try:
            check(wrong, case)
        except PropertyError as error:
            assert "data race" in str(error) or "uninitialized read" in str(error)
            reported += 1
    assert reported > len(barriers) / 2
