"""Sparse-MLA decode over paged FP8 caches."""

from gen.families.sparse_mla_decode.spec import Spec

__all__ = ["Spec"]
