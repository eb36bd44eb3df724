"""Executing compiled kernels in the PTX interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from gen.compile.result import Kernel
from gen.plan import Launch
from gen.ptx import Kernel as PtxKernel
from gen.ptx import Memory, Module, PtxError, Report, Undefined
from gen.run import Argument, RunError


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
        """Launch once. Raises RunError where the kernel does something that it may not."""
        if kernel.ptx not in self._kernels:
            self._kernels[kernel.ptx] = Module(kernel.ptx)[kernel.entry]
        values = [Undefined(value) if name in undefined else value for name, value in arguments.items()]
        try:
            report = self._kernels[kernel.ptx].launch(
                grid=launch.grid,
                block=(launch.threads, 1, 1),
                args=values,
                shared_bytes=kernel.dynamic_shared_bytes,
                written=[at for at, name in enumerate(arguments) if name in written],
                memory=self._memory,
            )
        except PtxError as fault:
            raise RunError(str(fault)) from fault
        self.reports.append(report)

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor itself."""
        return tensor

    def unwritten(self, array: torch.Tensor) -> int:
        """Elements of an output that no launch since `begin` wrote."""
        return int(self._memory.unwritten(array).any(-1).sum())
