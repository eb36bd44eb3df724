"""Kernels of fp8_block_gemm write rows of out at any stride, and nothing between them."""

import pytest
import torch
from specs_under_test import ROOT

from gen.check.case import Case
from gen.run import run

GAP, FILLER = 24, -7.0
PATHS = (
    "specs/deepseek_v4_flash/wq_b.yaml",
    "specs/deepseek_v4_flash/projections_fp32_tilelang.yaml",
    "tests/kernels/specs/fp8_grouped.yaml",
)


@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("path", PATHS)
def test_gaps_between_rows_stay_untouched(operation, path: str, splits: int):
    op = operation(ROOT / path)
    m, n = 5, 72
    knobs = {name: kinds[0] for name, kinds in op.family.knobs(op.spec).items()}
    case = Case({"m": m, "n": n, "k": 256}, knobs | {"values": "exact", "seed": 3})
    inputs = op.family.make_inputs(op.spec, case)
    plan = op.family.launch_plan(op.spec, inputs.sizes, op.device, splits)
    wide = torch.full((m, n + GAP), FILLER, dtype=torch.bfloat16)
    scratch = {
        key: torch.zeros(buffer.shape, dtype=getattr(torch, buffer.dtype))
        for key, buffer in plan.scratch.items()
    }
    arguments = op.family.arguments(op.spec, inputs) | {"out_stride": n + GAP}
    run(op.executor, op.compiled, plan, arguments, {"out": wide}, scratch)
    want = op.family.reference(op.spec, inputs)["out"].to(torch.bfloat16)
    assert torch.equal(wide[:, :n], want)
    assert (wide[:, n:] == FILLER).all()
