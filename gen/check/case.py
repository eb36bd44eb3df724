"""What a property is checked on: a case that JSON can carry, and the inputs that a family makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

NO_RELATION = "none"
"""The kind of the knob `relation` that asks for no second launch."""

MEANINGFUL_VALUES = "normal"
"""The kind of the knob `values`, where a family has it, whose errors mean something in absolute terms."""

Tensors: TypeAlias = dict[str, torch.Tensor]
Knob: TypeAlias = str | int | bool


@dataclass(frozen=True)
class Case:
    """Run-time sizes by name, and the family's knobs (kinds of values, of indices, …) by name."""

    sizes: Mapping[str, int]
    knobs: Mapping[str, Knob]

    def to_json(self) -> str:
        """One line that `from_json` reads back."""
        return json.dumps({"sizes": dict(self.sizes), "knobs": dict(self.knobs)}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Case:
        """The case of a line. Raises ValueError where it is not one."""
        form = 'a case is {"sizes": {…}, "knobs": {…}}'
        try:
            data: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{form}, and this is no JSON ({error})") from error
        if not (isinstance(data, dict) and set(data) == {"sizes", "knobs"}):
            raise ValueError(form)
        if not all(isinstance(part, dict) for part in data.values()):
            raise ValueError(form)
        return Case(data["sizes"], data["knobs"])


@dataclass(frozen=True)
class Inputs:
    """The tensors of one launch by argument name, their sizes, and the softmax scale where there is one."""

    sizes: dict[str, int]
    tensors: Tensors
    softmax_scale: float = 1.0

    def with_tensors(self, sizes: Mapping[str, int], /, **tensors: torch.Tensor) -> Inputs:
        """These inputs with some tensors, and the sizes that go with them, replaced."""
        return replace(self, sizes=self.sizes | dict(sizes), tensors=self.tensors | tensors)


@dataclass(frozen=True)
class FuzzSize:
    """How far the fuzzer takes a run-time size: to `cap`, with more weight around multiples of `step`.

    Sizes are multiples of `unit`, which divides `step`.
    """

    cap: int
    step: int = 1
    unit: int = 1


@dataclass(frozen=True)
class Relation:
    """Inputs whose outputs must equal, up to rounding, those of other inputs from row `first_token` on."""

    inputs: Inputs
    first_token: int = 0
    splits: int | None = None
