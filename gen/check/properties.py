"""The properties that every kernel must have, checked on one case at a time by whatever executor is given."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

import torch

from gen import families
from gen.check.case import Case, Inputs, Knob, Tensors
from gen.check.metrics import Distance
from gen.check.strategies import NO_RELATION
from gen.compile import Compiled
from gen.device import DEFAULT, Device
from gen.plan import Scratch
from gen.ptx import PtxError
from gen.run import Executor, run
from gen.spec import Fixed, KernelSpec, SplitWord

GUARD_ELEMENTS = 512
"""Elements on either side of a written buffer that must stay as they are, as in cuDNN's front end."""

SMALL_BYTES = 1 << 25
"""Inputs up to this size are compared with a copy after the launch."""


class PropertyError(AssertionError):
    """A case whose result is wrong: `faults` has a sentence each; the text ends with the replay command."""

    def __init__(self, spec: KernelSpec, case: Case, faults: list[str], device: str = DEFAULT) -> None:
        self.faults, self.case = faults, case
        card = [] if device == DEFAULT else ["--device", device]
        command = shlex.join(["kgen", "fuzz", str(spec.path), *card, "--case", case.to_json()])
        super().__init__(f"{spec.name}: {'; '.join(faults)}. Replay: {command}")


@dataclass(frozen=True)
class Operation:
    """A compiled spec with what executes it, and the device whose SM count the launches are planned for."""

    spec: KernelSpec
    compiled: Compiled
    executor: Executor
    device: Device

    @property
    def family(self) -> ModuleType:
        """The module of the spec's family."""
        return families.module(self.spec.family)


@dataclass
class _Guarded:
    """A buffer between guard bands, filled with NaN (-1 in integers) unless it starts zeroed."""

    view: torch.Tensor
    whole: torch.Tensor
    band: float

    @staticmethod
    def make(buffer: Scratch) -> _Guarded:
        dtype = getattr(torch, buffer.dtype)
        count = torch.Size(buffer.shape).numel()
        whole = torch.full((count + 2 * GUARD_ELEMENTS,), 77.0, dtype=dtype)
        view = whole[GUARD_ELEMENTS : GUARD_ELEMENTS + count].view(buffer.shape)
        view.fill_(0 if buffer.zeroed else float("nan") if dtype.is_floating_point else -1)
        return _Guarded(view, whole, 77.0)

    def intact(self) -> bool:
        ends = self.whole[:GUARD_ELEMENTS], self.whole[-GUARD_ELEMENTS:]
        return all(bool((end == self.band).all()) for end in ends)


def launch(operation: Operation, inputs: Inputs, splits: int | None = None) -> tuple[Tensors, list[str]]:
    """The outputs for some inputs, and what went wrong beside their values.

    `splits` overrides the spec's split strategy. Wrong is: a fault of the interpreter, a write outside the
    outputs and the scratch, an output element that nothing wrote, scratch that must end zeroed and does not,
    a changed input.
    """
    spec, family = operation.spec, operation.family
    if splits is not None and spec.split is not SplitWord.NONE:
        spec = spec.model_copy(update={"split": Fixed(fixed=splits)})
    plan = family.launch_plan(spec, inputs.sizes, operation.device)
    outputs = {name: _Guarded.make(buffer) for name, buffer in family.outputs(spec, inputs).items()}
    scratch = {name: _Guarded.make(buffer) for name, buffer in plan.scratch.items()}
    before = {name: t.clone() for name, t in inputs.tensors.items() if t.nbytes <= SMALL_BYTES}
    results = {name: buffer.view for name, buffer in outputs.items()}
    try:
        run(
            operation.executor,
            operation.compiled,
            plan,
            family.arguments(spec, inputs),
            results,
            {name: buffer.view for name, buffer in scratch.items()},
        )
    except PtxError as fault:
        return {}, [str(fault)]
    faults = [
        f"{name}: elements beyond its ends were written"
        for name, buffer in {**outputs, **scratch}.items()
        if not buffer.intact()
    ]
    for name, view in results.items():
        missing = operation.executor.unwritten(view)
        if missing:
            faults.append(f"{name}: {missing} of {view.numel()} elements were never written")
    faults += [
        f"{name}: is not zero again after the launch, so the next one would go wrong"
        for name, buffer in plan.scratch.items()
        if buffer.zeroed and scratch[name].view.any()
    ]
    faults += [
        f"{name}: the input changed"
        for name, copy in before.items()
        if not torch.equal(_bits(copy), _bits(inputs.tensors[name]))
    ]
    return results, faults


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


def check(operation: Operation, case: Case) -> Mapping[str, Distance]:
    """Run a case and check every property; the distances of its outputs from the reference.

    Raises PropertyError. The knob `relation` names a second launch whose outputs must agree with the first's.
    """
    spec, family = operation.spec, operation.family
    inputs = family.make_inputs(spec, case)
    got, faults = launch(operation, inputs)
    distances: dict[str, Distance] = {}
    if got:
        wrong, distances = family.compare(spec, case, inputs, got)
        faults += wrong
    relation = case.knobs.get("relation", NO_RELATION)
    if not faults and relation != NO_RELATION:
        faults += _related(operation, inputs, got, str(relation), case.knobs["seed"])
    if faults:
        raise PropertyError(spec, case, faults, operation.device.name)
    return distances


def _related(operation: Operation, inputs: Inputs, got: Tensors, relation: str, seed: Knob) -> list[str]:
    related = operation.family.related(operation.spec, inputs, relation, seed)
    other, faults = launch(operation, related.inputs, related.splits)
    if faults:
        return [f"{relation}: {fault}" for fault in faults]
    expected = {name: tensor[related.first_token :] for name, tensor in got.items()}
    if relation == "rerun":
        return [
            f"rerun: {name} differs between two runs of the same inputs"
            for name, tensor in expected.items()
            if not torch.equal(_bits(tensor), _bits(other[name]))
        ]
    faults = operation.family.equal(operation.spec, related.inputs, expected, other)
    return [f"{relation}: {fault}" for fault in faults]
