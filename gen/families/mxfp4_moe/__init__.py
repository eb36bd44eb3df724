"""Mixture of experts with MXFP4 weights: grouping, gate and up, SwiGLU, down, and the weighted sum."""

from gen.families.mxfp4_moe.bind import bind, signature
from gen.families.mxfp4_moe.cases import RELATIONS, fuzz_sizes, knobs, make_inputs, must_test, related
from gen.families.mxfp4_moe.compare import OUTPUTS, arguments, compare, equal, outputs
from gen.families.mxfp4_moe.plan import launch_plan, plan
from gen.families.mxfp4_moe.reference import reference

__all__ = [
    "OUTPUTS",
    "RELATIONS",
    "arguments",
    "bind",
    "compare",
    "equal",
    "fuzz_sizes",
    "knobs",
    "launch_plan",
    "make_inputs",
    "must_test",
    "outputs",
    "plan",
    "reference",
    "related",
    "signature",
]
