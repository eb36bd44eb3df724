"""The properties that every kernel must have, checked on one case at a time by whatever executor is given."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import torch

from gen import families
from gen.check.case import NO_RELATION, Case, Inputs, Knob, Tensors
from gen.check.metrics import Distance
from gen.compile.result import Compiled
from gen.device import DEFAULT, Device
from gen.plan import Scratch
from gen.run import Executor, RunError, run

if TYPE_CHECKING:
    from gen.spec import KernelSpec

GUARD_BYTES, GUARD_BYTE = 2048, 0x4D
"""Bytes on either side of a written buffer that must stay as they are, as in cuDNN's front end."""

UNWRITTEN_BYTE = 0xFF
"""What outputs and scratch hold at first: a NaN in floats that no arithmetic makes, and -1 in integers."""

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


class _Guarded:
    """A buffer between guard bands, where the executor reaches it; 0xFF bytes unless it starts zeroed."""

    def __init__(self, buffer: Scratch, executor: Executor) -> None:
        dtype = getattr(torch, buffer.dtype)
        size = torch.Size(buffer.shape).numel() * dtype.itemsize
        whole = torch.full((size + 2 * GUARD_BYTES,), GUARD_BYTE, dtype=torch.uint8)
        whole[GUARD_BYTES : GUARD_BYTES + size] = 0 if buffer.zeroed else UNWRITTEN_BYTE
        self._whole = executor.place(whole)
        self.view = self._whole[GUARD_BYTES : GUARD_BYTES + size].view(dtype).view(buffer.shape)

    def intact(self) -> bool:
        """Whether both bands are as they were."""
        ends = self._whole[:GUARD_BYTES], self._whole[-GUARD_BYTES:]
        return all(bool((end == GUARD_BYTE).all()) for end in ends)


def launch(operation: Operation, inputs: Inputs, splits: int | None = None) -> tuple[Tensors, list[str]]:
    """The outputs for some inputs, on the CPU, and what went wrong beside their values.

    `splits` overrides the spec's split strategy. Wrong is: a fault of the kernel, a write outside the outputs
    and the scratch, an output element that nothing wrote, scratch that must end zeroed and does not, an input
    that changed.
    """
    spec, family, executor = operation.spec, operation.family, operation.executor
    plan = family.launch_plan(spec, inputs.sizes, operation.device, splits)
    before = {name: t.clone() for name, t in inputs.tensors.items() if t.nbytes <= SMALL_BYTES}
    placed = inputs.with_tensors({}, **{name: executor.place(t) for name, t in inputs.tensors.items()})
    outputs = {name: _Guarded(buffer, executor) for name, buffer in family.outputs(spec, inputs).items()}
    scratch = {name: _Guarded(buffer, executor) for name, buffer in plan.scratch.items()}
    results = {name: buffer.view for name, buffer in outputs.items()}
    temporary = {name: buffer.view for name, buffer in scratch.items()}
    try:
        run(executor, operation.compiled, plan, family.arguments(spec, placed), results, temporary)
    except RunError as fault:
        return {}, [str(fault)]
    faults = [
        f"{name}: elements beyond its ends were written"
        for name, buffer in {**outputs, **scratch}.items()
        if not buffer.intact()
    ]
    for name, view in results.items():
        missing = executor.unwritten(view) if view.numel() else 0
        if missing:
            faults.append(f"{name}: {missing} of {view.numel()} elements were never written")
    faults += [
        f"{name}: is not zero again after the launch, so the next one would go wrong"
        for name, buffer in plan.scratch.items()
        if buffer.zeroed and temporary[name].any()
    ]
    faults += [
        f"{name}: the input changed"
        for name, copy in before.items()
        if not torch.equal(_bits(copy), _bits(placed.tensors[name].cpu()))
    ]
    return {name: view.cpu() for name, view in results.items()}, faults


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


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
