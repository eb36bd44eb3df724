"""Sparse-MLA decode: one latent key-value head, keys gathered by index from paged FP8 caches."""

from gen.families.sparse_mla_decode.bind import bind, signature
from gen.families.sparse_mla_decode.cases import RELATIONS, fuzz_sizes, knobs, make_inputs, must_test, related
from gen.families.sparse_mla_decode.compare import OUTPUTS, arguments, compare, equal, outputs
from gen.families.sparse_mla_decode.plan import launch_plan, plan
from gen.families.sparse_mla_decode.reference import reference

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
