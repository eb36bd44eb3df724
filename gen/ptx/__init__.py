"""Executes PTX on the CPU and checks what it does: `Module(text)["entry"].launch(grid, block, args)`."""

from gen.ptx.errors import Access, Fault, Hit, PtxError
from gen.ptx.kernel import Kernel, Module
from gen.ptx.memory import Memory, Undefined
from gen.ptx.report import Report
from gen.ptx.tensormap import TensorMap

__all__ = [
    "Access", "Fault", "Hit", "Kernel", "Memory", "Module", "PtxError", "Report", "TensorMap", "Undefined",
]  # fmt: skip
