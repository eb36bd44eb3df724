"""Hypothesis strategies, derived from a spec's run-time sizes and its family's knobs."""

from __future__ import annotations

from types import ModuleType

from hypothesis import strategies as st

from gen.check.case import NO_RELATION, Case, FuzzSize, Knob
from gen.spec import KernelSpec, bounds
from gen.spec.errors import quote

MAX_SEED = 2**31 - 1


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


def validate(spec: KernelSpec, family: ModuleType, case: Case) -> None:
    """Raise ValueError where a case is none of this spec: sizes by its bounds, knobs by their kinds.

    The kinds are those that the strategies draw or a must-test case has; `relation` may be absent.
    """
    names = family.fuzz_sizes(spec)
    _same_names(spec, "sizes", set(case.sizes), set(names))
    for name, size in case.sizes.items():
        low, high = bounds(getattr(spec.shapes, name))
        unit = names[name].unit
        if type(size) is not int or not low <= size <= high or size % unit:
            wanted = f"a multiple of {unit}" if unit > 1 else "an integer"
            raise ValueError(
                f"{spec.name}: the size {name} is {quote(size)}; use {wanted} from {low} to {high}"
            )
    kinds: dict[str, list[Knob]] = {name: list(known) for name, known in family.knobs(spec).items()}
    for example in family.must_test(spec).values():
        for name in kinds:
            kinds[name] += [example.knobs[name]] if example.knobs[name] not in kinds[name] else []
    kinds["relation"] = [NO_RELATION, *family.RELATIONS]
    knobs = {"relation": NO_RELATION} | dict(case.knobs)
    _same_names(spec, "knobs", set(knobs), {*kinds, "seed"})
    for name, known in kinds.items():
        if knobs[name] not in known:
            words = ", ".join(map(quote, known))
            raise ValueError(f"{spec.name}: the knob {name} is {quote(knobs[name])}; use one of {words}")
    seed = knobs["seed"]
    if type(seed) is not int or not 0 <= seed <= MAX_SEED:
        raise ValueError(f"{spec.name}: the seed is {quote(seed)}; use an integer from 0 to {MAX_SEED}")


def _same_names(spec: KernelSpec, what: str, got: set[str], want: set[str]) -> None:
    if got != want:
        wrong = ", ".join(map(quote, sorted(got ^ want)))
        raise ValueError(f"{spec.name}: its {what} are {', '.join(sorted(want))}; wrong or missing: {wrong}")


def _sizes(low: int, high: int, limit: FuzzSize) -> st.SearchStrategy[int]:
    """Sizes from `low` to at most the cap: the ends, multiples of the step and their neighbours."""
    unit = limit.unit
    low, top = -(-low // unit), min(high, max(limit.cap, low)) // unit
    multiples = range(0, top + 1, limit.step // unit)
    edges = {low, low + 1, top, *(m + d for m in multiples for d in (-1, 0, 1))}
    # The plain integers come first, so that failing cases shrink to the smallest.
    units = st.integers(low, top) | st.sampled_from(sorted(e for e in edges if low <= e <= top))
    return units.map(lambda count: count * unit)
