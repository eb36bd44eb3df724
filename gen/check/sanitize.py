"""Running launches for what the interpreter sees of them: totals by kernel, warnings and faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gen.check.properties import Operation, launch
from gen.compile.result import Compiled, Kernel
from gen.device import Device
from gen.plan import Launch
from gen.ptx import Fault, Report
from gen.run import Argument, RunError
from gen.run.interpreter import Interpreter
from gen.spec import KernelSpec


@dataclass
class Totals:
    """What all launches of a kernel did; `bank_conflicts` are those of each launch's first block."""

    launches: int = 0
    thread_instructions: int = 0
    bytes_read: dict[str, int] = field(default_factory=dict)
    bytes_written: dict[str, int] = field(default_factory=dict)
    bank_conflicts: int = 0
    warnings: list[str] = field(default_factory=list)
    failure: str | None = None
    fault: Fault | None = None

    def add(self, report: Report) -> None:
        """Count a launch."""
        self.launches += 1
        self.thread_instructions += sum(report.thread_instructions.values())
        self.bank_conflicts += sum(report.sampled_bank_conflicts.values())
        for mine, other in (
            (self.bytes_read, report.bytes_read),
            (self.bytes_written, report.bytes_written),
        ):
            for space, count in other.items():
                mine[space] = mine.get(space, 0) + count
        self.warnings += [text for text in report.warnings if text not in self.warnings]

    def as_row(self) -> dict[str, Any]:
        """All of it, for a table or JSON."""
        return {
            "launches": self.launches,
            "instructions": self.thread_instructions,
            "global_read": self.bytes_read.get("global", 0),
            "global_written": self.bytes_written.get("global", 0),
            "shared_read": self.bytes_read.get("shared", 0),
            "shared_written": self.bytes_written.get("shared", 0),
            "local_read": self.bytes_read.get("local", 0),
            "local_written": self.bytes_written.get("local", 0),
            "bank_conflicts": self.bank_conflicts,
            "warnings": self.warnings,
            "state": self.fault.kind if self.fault else "failed" if self.failure else "clean",
            "failure": self.failure,
            "fault": fault_fields(self.fault) if self.fault else None,
        }


def fault_fields(fault: Fault) -> dict[str, Any]:
    """The parts of a fault, for JSON."""
    access, hit = fault.access, fault.allocation
    return {
        "kind": fault.kind,
        "detail": fault.detail,
        "line": fault.line,
        "instruction": fault.text,
        "source": fault.source,
        "block": fault.block,
        "thread": fault.thread,
        "access": access
        and {
            "space": access.space,
            "address": access.address,
            "size": access.size,
            "allocation": hit
            and {"name": hit.name, "size": hit.size, "offset": hit.offset, "outside": hit.outside},
        },
    }


@dataclass
class Recorder(Interpreter):
    """An interpreter that keeps totals of every kernel it launches."""

    kernels: dict[str, Totals] = field(default_factory=dict)

    def launch(
        self,
        kernel: Kernel,
        launch: Launch,
        arguments: Mapping[str, Argument],
        written: frozenset[str],
        undefined: frozenset[str],
    ) -> None:
        """Launch once and count. Raises RunError where the kernel does something that it may not."""
        totals = self.kernels.setdefault(kernel.name, Totals())
        try:
            super().launch(kernel, launch, arguments, written, undefined)
        except RunError as error:
            totals.failure = f"{kernel.name}: {error}"
            totals.fault = error.__cause__ if isinstance(error.__cause__, Fault) else None
            raise
        totals.add(self.reports[-1])


def sanitize(spec: KernelSpec, compiled: Compiled, device: Device) -> dict[str, Totals]:
    """Run a spec's must-test cases; totals by kernel, with the first failure where there is one."""
    recorder = Recorder()
    operation = Operation(spec, compiled, recorder, device)
    family = operation.family
    for name, case in family.must_test(spec).items():
        _, faults = launch(operation, family.make_inputs(spec, case))
        if faults:
            failed = [totals for totals in recorder.kernels.values() if totals.failure]
            text = f"{spec.name}, case {name!r}: {'; '.join(faults)}"
            for totals in failed or list(recorder.kernels.values())[-1:]:
                totals.failure = text
            break
    return recorder.kernels
