"""The interpreter against hardware, case by case: see docs/conformance.md."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.conformance.case import Case
from tests.conformance.cases import GROUPS
from tests.conformance.compare import about, compare, recorded

CASES = [(group, case) for group, cases in GROUPS.items() for case in cases]


@pytest.mark.parametrize(("group", "case"), [pytest.param(g, c, id=f"{g}-{c.entry}") for g, c in CASES])
def test_interpreter_agrees_with_hardware(group: str, case: Case) -> None:
    outcome = compare(group, case)
    wrong = np.argwhere(~outcome.agrees)
    first = tuple(wrong[0]) if len(wrong) else ()
    assert not len(wrong), (
        f"{case.name}: {len(wrong)} of {outcome.words} words differ, first at {first}: hardware "
        f"{outcome.hardware[first]:#x}, interpreter {outcome.interpreter[first]:#x}"
    )


@pytest.mark.parametrize("group", GROUPS)
def test_every_case_is_recorded_as_it_is(group: str) -> None:
    """PTX, launch and inputs are those of the record; it holds nothing else, and every output was written."""
    assert {case.entry: case.digest() for case in GROUPS[group]} == about(group)["cases"]
    assert recorded(group).keys() == about(group)["cases"].keys()


def test_names_are_unique() -> None:
    assert not [name for name, count in Counter(case.entry for _, case in CASES).items() if count > 1]


def test_rules_see_differences() -> None:
    """Each rule that is used rejects an output that is wrong in one word."""
    for rule in {type(case.rule): case for _, case in CASES}.values():
        group = next(g for g, case in CASES if case is rule)
        hardware = recorded(group)[rule.entry]
        wrong = hardware.copy()
        wrong.reshape(-1)[0] ^= wrong.dtype.type(1 << (8 * wrong.itemsize - 3))
        terms = np.ones_like(hardware)
        assert not rule.rule.within(hardware, wrong, rule.value, terms).reshape(-1)[0]
