"""Deliberately wrong FP8 GEMMs: the fuzz must catch each."""

import pytest
from specs_under_test import ROOT

from gen.check.fuzz import fuzz

SPECS = ROOT / "specs/deepseek_v4_flash"
SCALED, PROMOTED, BATCHED = SPECS / "wq_b.yaml", SPECS / "projections_fp32.yaml", SPECS / "wo_a_tp4.yaml"
GROUPED = ROOT / "tests/kernels/specs/fp8_grouped.yaml"
TILELANG = SPECS / "projections_fp32_tilelang.yaml"

ROW = "cutlass.min(row, last) * stride"
B_SCALES = "b_scales = b_scale + n0 // 128 * k_blocks"
PROMOTION = "block_sum[(column, half), i, j] * factor[column, j]"
SYNC = "        cute.arch.cp_async_wait_group(tile.stages - 2)\n        cute.arch.sync_threads()\n"
PARTS = "for other in cutlass.range(splits):"
RESET = "element(arrived, 0)[0] = Int32(0)"
FENCE = "        cute.arch.fence_acq_rel_gpu()\n        cute.arch.sync_threads()\n"

WRONG = {
    "scale_of_the_next_block_of_k": (SCALED, "+ k_block)[0])\n", "+ (k_block + 1) % k_blocks)[0])\n", "out"),
    "scale_of_other_rows_of_b": (SCALED, B_SCALES, "b_scales = b_scale", "out"),
    "scale_of_another_row_of_a": (SCALED, "+ thread % 32 // 4\n", "+ thread % 8\n", "out"),
    "past_the_last_row_of_b": (SCALED, ROW, "row * stride", "out of bounds"),
    "row_stride_assumed": (SCALED, "a + m0 * a_stride", "a + m0 * Int64(k)", "out"),
    "no_promotion": (PROMOTED, PROMOTION, "block_sum[(column, half), i, j]", "out"),
    "columns_swapped": (PROMOTED, PROMOTION, PROMOTION.replace("[column, j]", "[1 - column, j]"), "out"),
    "no_barrier_before_a_tile_is_read": (SCALED, SYNC, SYNC.split("\n")[0] + "\n", "pending copy|data race"),
    "a_copy_not_waited_for": (
        SCALED,
        "wait_group(tile.stages - 2)",
        "wait_group(tile.stages - 1)",
        "pending copy",
    ),
    "a_part_left_out": (SCALED, PARTS, PARTS.replace("(splits)", "(splits - 1)"), "out"),
    "arrivals_not_reset": (SCALED, RESET, "element(arrived, 0)[0] = splits", "arrivals"),
    "no_fence_before_the_arrival": (SCALED, FENCE, FENCE.split("\n")[1] + "\n", "data race"),
    "group_of_the_scales_forgotten": (BATCHED, "    a_scale += group * k_blocks\n", "", "out"),
}

WRONG |= {
    f"grouped_{name}": (GROUPED, *edit)
    for name, edit in {
        "rows_of_the_next_group_too": (
            '"m_end" if grouped else "m"',
            '"m" if grouped else "m"',
            "data race|out",
        ),
        "weights_of_the_first_group": ("    b_rows += group * (Int64(n) * k)\n", "", "out"),
        "scales_of_the_first_group": (
            "    b_scales += group * (cute.ceil_div(n, 128) * k_blocks)\n",
            "    b_scales += 0\n",
            "out",
        ),
        "surplus_blocks_merge_too": (
            " and m0 < m_end{% endif %}:",
            "{% endif %}:",
            "data race|out of bounds",
        ),
    }.items()
}
WRONG |= {
    f"tilelang_{name}": (TILELANG, *edit)
    for name, edit in {
        "past_the_last_row_of_b": ("T.min(n0 + i, n - 1)", "(n0 + i)", "out of bounds"),
        "row_stride_assumed": ("= a_stride // 16", '= T.cast(k // 16, "int64")', "out"),
        "no_promotion": ("block_sum[i, j] * a_factor[i]", "block_sum[i, j]", "out"),
        "scale_of_other_rows_of_b": ('else "n0 // 128" }} * k_blocks', 'else "0" }} * k_blocks', "out"),
        "a_copy_not_waited_for": (
            "wait_group(tile.stages - 2)",
            "wait_group(tile.stages - 1)",
            "pending copy",
        ),
        "arrivals_not_reset": ("arrivals[arrived] = 0", "arrivals[arrived] = splits", "arrivals"),
        "a_part_left_out": ("in T.serial(splits)", "in T.serial(splits - 1)", "out"),
        "relaxed_arrival": ('memory_order="acq_rel"', 'memory_order="relaxed"', "data race"),
    }.items()
}


@pytest.mark.parametrize("name", WRONG)
def test_fuzz_catches(operation, name: str):
    path, old, new, symptom = WRONG[name]
    report = fuzz(operation(path, (old, new)), examples=20)
    assert report.failure is not None, "nothing noticed"
    text = str(report.failure)
    assert any(word in text for word in symptom.split("|")), text
