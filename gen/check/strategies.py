"""Hypothesis strategies, derived from a spec's run-time sizes and its family's knobs."""

from __future__ import annotations

from types import ModuleType

from hypothesis import strategies as st

from gen.check.case import Case, FuzzSize
from gen.spec import KernelSpec, bounds

MAX_SEED = 2**31 - 1
NO_RELATION = "none"


def cases(spec: KernelSpec, family: ModuleType) -> st.SearchStrategy[Case]:
    """Cases of a spec: every size within its bounds, every knob among its kinds, a seed and a relation."""
    limits: dict[str, FuzzSize] = family.fuzz_sizes(spec)
    sizes = {name: _sizes(*bounds(getattr(spec.shapes, name)), limit) for name, limit in limits.items()}
    knobs: dict[str, st.SearchStrategy[str | int | bool]] = {
        name: st.sampled_from(kinds) for name, kinds in family.knobs(spec).items()
    }
    knobs["seed"] = st.integers(0, MAX_SEED)
    knobs["relation"] = st.sampled_from([NO_RELATION, *family.RELATIONS])
    return st.builds(Case, st.fixed_dictionaries(sizes), st.fixed_dictionaries(knobs))


def _sizes(low: int, high: int, limit: FuzzSize) -> st.SearchStrategy[int]:
    """Sizes from `low` to at most the cap: the ends, multiples of the step and their neighbours."""
    top = min(high, max(limit.cap, low))
    edges = {low, low + 1, top, *(m + d for m in range(0, top + 1, limit.step) for d in (-1, 0, 1))}
    return st.sampled_from(sorted(e for e in edges if low <= e <= top)) | st.integers(low, top)
