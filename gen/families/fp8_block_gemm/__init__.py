"""FP8 GEMM with a scale for every 128 of k, as DeepSeek's projections use it."""

from gen.families.fp8_block_gemm.bind import bind, signature
from gen.families.fp8_block_gemm.cases import RELATIONS, fuzz_sizes, knobs, make_inputs, must_test, related
from gen.families.fp8_block_gemm.compare import OUTPUTS, arguments, compare, equal, outputs
from gen.families.fp8_block_gemm.plan import launch_plan, plan
from gen.families.fp8_block_gemm.reference import reference

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
