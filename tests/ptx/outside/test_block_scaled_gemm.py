"""block_scaled_gemm.cu: e4m3 by e2m1 with ue8m0 scales, padded 4-bit boxes, byte and thread selectors."""

from __future__ import annotations

import pytest

from gen.ptx import Fault
from tests.ptx.outside.block_scaled import Problem
from tests.ptx.outside.conftest import CompileCuda


def test_block_scaled_gemm(compile_cuda: CompileCuda) -> None:
    problem = Problem.random(128, 128, 512)
    c, report = problem.launch(compile_cuda("block_scaled_gemm.cu"))
    assert (c == problem.expected()).all()
    assert report.warp_instructions["mma"] == (128 // 16) * (128 // 8) * (512 // 32)


LAST_STEP = "        k_step<3>(acc, a, b, row, sfa, sfb);\n"
FREE = "        if (elect_one()) mbarrier_arrive(&s.empty[stage]);\n"
MISTAKES = {
    "padding counted as transferred": ("mbarrier misuse", ("A_BYTES + B_BYTES / 2", "A_BYTES + B_BYTES")),
    "scales not waited for": ("pending copy", ("mbarrier_wait(&s.full[stage], phase);", "")),
    "stage freed before it was read": ("pending copy", (LAST_STEP, ""), (FREE, FREE + LAST_STEP)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_reported(compile_cuda: CompileCuda, mistake: str) -> None:
    kind, *edits = MISTAKES[mistake]
    with pytest.raises(Fault) as caught:
        Problem.random(128, 64, 512).launch(compile_cuda("block_scaled_gemm.cu", *edits))
    assert caught.value.kind == kind


@pytest.mark.parametrize("selector", ['"n"(BYTE)', '"n"(ROWS)', '"n"(COLUMNS)'])
def test_every_selector_matters(compile_cuda: CompileCuda, selector: str) -> None:
    problem = Problem.random(128, 64, 128)
    c, _ = problem.launch(compile_cuda("block_scaled_gemm.cu", (selector, '"n"(0)')))
    assert (c != problem.expected()).any()
