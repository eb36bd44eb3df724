"""Running the launches of a plan: one call, whatever executes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import torch

from gen.compile import Compiled, Kernel
from gen.plan import Launch, LaunchPlan
from gen.ptx import Kernel as PtxKernel
from gen.ptx import Memory, Module, Report, Undefined

Argument: TypeAlias = torch.Tensor | int | float | None


class Executor(Protocol):
    """Something that launches compiled kernels. `begin` starts one operation of several launches."""

    def begin(self) -> None:
        """Forget what earlier operations wrote."""

    def launch(
        self,
        kernel: Kernel,
        launch: Launch,
        arguments: Mapping[str, Argument],
        written: frozenset[str],
        undefined: frozenset[str],
    ) -> None:
        """Launch once; the kernel may write the `written` arguments, and `undefined` ones start unwritten."""

    def unwritten(self, array: torch.Tensor) -> int:
        """Elements of an output that no launch since `begin` wrote."""


@dataclass
class Interpreter:
    """Executes PTX on the CPU with every check of `gen.ptx`; `reports` has one a launch since `begin`."""

    reports: list[Report] = field(default_factory=list)
    _kernels: dict[str, PtxKernel] = field(default_factory=dict)
    _memory: Memory = field(default_factory=Memory)

    def begin(self) -> None:
        """Forget what earlier operations wrote, and their reports."""
        self.reports, self._memory = [], Memory()

    def launch(
        self,
        kernel: Kernel,
        launch: Launch,
        arguments: Mapping[str, Argument],
        written: frozenset[str],
        undefined: frozenset[str],
    ) -> None:
        """Launch once. Raises `gen.ptx.Fault` where the kernel does something that it may not."""
        if kernel.ptx not in self._kernels:
            self._kernels[kernel.ptx] = Module(kernel.ptx)[kernel.entry]
        values = [Undefined(value) if name in undefined else value for name, value in arguments.items()]
        report = self._kernels[kernel.ptx].launch(
            grid=launch.grid,
            block=(launch.threads, 1, 1),
            args=values,
            shared_bytes=kernel.dynamic_shared_bytes,
            written=[at for at, name in enumerate(arguments) if name in written],
            memory=self._memory,
        )
        self.reports.append(report)

    def unwritten(self, array: torch.Tensor) -> int:
        """Elements of an output that no launch since `begin` wrote."""
        return int(self._memory.unwritten(array).any(-1).sum())


def run(
    executor: Executor,
    compiled: Compiled,
    plan: LaunchPlan,
    arguments: Mapping[str, Argument],
    outputs: Mapping[str, torch.Tensor],
    scratch: Mapping[str, torch.Tensor],
) -> None:
    """Run the launches of a plan in order; `outputs` and `scratch` are written, `arguments` only read.

    Each kernel takes what it declares, in the order that its compiled signature has. Raises KeyError where
    a kernel declares an argument that nobody provides.
    """
    named: dict[str, Argument] = {**plan.scalars, **arguments, **scratch, **outputs}
    written = frozenset([*outputs, *scratch])
    undefined = written - {name for name, buffer in plan.scratch.items() if buffer.zeroed}
    executor.begin()
    for launch in plan.launches:
        kernel = compiled.kernels[launch.kernel]
        taken = {parameter.name: named[parameter.name] for parameter in kernel.parameters}
        executor.launch(kernel, launch, taken, written, undefined)
