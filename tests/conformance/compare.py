"""Compares the interpreter with hardware: `python -m tests.conformance.compare [GROUP…]` prints a table."""

from __future__ import annotations

import functools
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.conformance.case import Array, Case
from tests.conformance.cases import GROUPS
from tests.conformance.interpret import run
from tests.conformance.rules import Accumulated

FOLDER = Path(__file__).parent.parent / "data" / "conformance"


@functools.cache
def about(group: str) -> dict[str, Any]:
    """Card, driver, date and hashes of a group's record."""
    return dict(json.loads((FOLDER / f"{group}.json").read_text()))


@functools.cache
def recorded(group: str) -> dict[str, Array]:
    """What hardware gave, by entry."""
    with np.load(FOLDER / f"{group}.npz") as arrays:
        return dict(arrays)


@dataclass(frozen=True)
class Outcome:
    """Of one case: words of output, how many are bit-identical, and which obey the case's rule (bool)."""

    hardware: Array
    interpreter: Array
    agrees: Array

    @property
    def words(self) -> int:
        """Words of output."""
        return int(self.hardware.size)

    @property
    def identical(self) -> int:
        """Words with the same bits."""
        return int((self.hardware == self.interpreter).sum())


def compare(group: str, case: Case) -> Outcome:
    """Runs a case in the interpreter and judges it by its rule."""
    hardware, interpreter = recorded(group)[case.entry], run(case)
    terms = None
    if isinstance(case.rule, Accumulated):
        pairs = zip(case.arrays(), case.rule.signs, strict=True)
        terms = run(case, [a & np.uint32(kept) for a, kept in pairs])
    return Outcome(hardware, interpreter, case.rule.within(hardware, interpreter, case.value, terms))


def main(groups: list[str]) -> None:
    """Prints cases, words and agreement of each group, and the cases that do not agree."""
    print("| group | cases | threads | words of output | bit-identical | within the rule |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for group in groups or list(GROUPS):
        outcomes = {case.name: compare(group, case) for case in GROUPS[group]}
        threads = sum(case.threads * case.blocks for case in GROUPS[group])
        words = sum(o.words for o in outcomes.values())
        identical = sum(o.identical for o in outcomes.values())
        within = sum(int(o.agrees.sum()) for o in outcomes.values())
        print(f"| {group} | {len(outcomes)} | {threads:,} | {words:,} | {identical:,} | {within:,} |")
        for name, o in outcomes.items():
            if not o.agrees.all():
                first = tuple(np.argwhere(~o.agrees)[0])
                given, computed = o.hardware[first], o.interpreter[first]
                print(f"    {name}: first at {first}: hardware {given:#x}, interpreter {computed:#x}")


if __name__ == "__main__":
    main(sys.argv[1:])
