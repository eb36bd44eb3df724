"""What the compiler stage returns: kernels, their launch signature and resources, or one error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ParameterType = Literal[
    "pointer", "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64"
]

PARAMETER_BYTES: dict[ParameterType, int] = {
    "pointer": 8,
    "bool": 1,
    "i8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "u8": 1,
    "u16": 2,
    "u32": 4,
    "u64": 8,
    "f16": 2,
    "f32": 4,
    "f64": 8,
}


@dataclass(frozen=True)
class Parameter:
    """One launch argument. `name` is the one that the source declares; dynamic sizes are parameters too."""

    name: str
    type: ParameterType


@dataclass(frozen=True)
class Kernel:
    """One compiled kernel.

    `parameters` is the launch order. A declared parameter that the kernel never reads is not among them.
    Registers are per thread; bytes of spills, stack and shared memory are as ptxas reports them, shared
    memory without the 1 KiB that the hardware reserves for each block. `cuda` is empty where the DSL
    emits PTX. `mma` names the different tensor-core instructions of its SASS.
    """

    name: str
    entry: str
    arch: str
    cuda: str
    ptx: str
    cubin: bytes
    parameters: tuple[Parameter, ...]
    threads: int
    registers: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    mma: tuple[str, ...] = ()

    @property
    def shared_bytes(self) -> int:
        """Static plus dynamic shared memory of a block, in bytes."""
        return self.static_shared_bytes + self.dynamic_shared_bytes


@dataclass(frozen=True)
class Compiled:
    """The kernels of a source by name, in the order of `KERNELS`; `seconds` is the time of this call."""

    kernels: dict[str, Kernel]
    arch: str
    seconds: float
    from_cache: bool


class CompileError(Exception):
    """A source that does not compile. The text is one paragraph: what, where, first error line, log file."""

    def __init__(self, message: str, *, kernel: str | None = None, log: Path | None = None) -> None:
        """`kernel` is the kernel at fault where one is known; `log` the folder that keeps the full output."""
        super().__init__(message)
        self.kernel = kernel
        self.log = log
