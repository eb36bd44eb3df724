"""Compile a generated kernel source to PTX and a cubin, on a machine with no GPU and no CUDA installed."""

from gen.compile.api import compile_many, compile_source, find_compiled
from gen.compile.result import Compiled, CompileError, Kernel, Parameter, ParameterType
from gen.compile.toolchain import toolchain

__all__ = [
    "CompileError",
    "Compiled",
    "Kernel",
    "Parameter",
    "ParameterType",
    "compile_many",
    "compile_source",
    "find_compiled",
    "toolchain",
]
