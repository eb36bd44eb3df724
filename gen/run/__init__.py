"""Running the launches of a plan: one call, whatever executes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

import torch

from gen.compile.result import Compiled, Kernel
from gen.plan import Launch, LaunchPlan

Argument: TypeAlias = torch.Tensor | int | float | None


class RunError(Exception):
    """A launch that an executor refused, or whose kernel did what it may not; the text is one paragraph."""


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

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """A CPU tensor where this executor's kernels can reach it, with its strides."""

    def unwritten(self, array: torch.Tensor) -> int:
        """Elements of an output that no launch since `begin` wrote."""


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
        if 0 in launch.grid:
            continue  # no work, and CUDA refuses an empty grid
        kernel = compiled.kernels[launch.kernel]
        taken = {parameter.name: named[parameter.name] for parameter in kernel.parameters}
        executor.launch(kernel, launch, taken, written, undefined)
