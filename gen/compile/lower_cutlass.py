"""CuTe DSL kernels to PTX; one of the backends of `lower.py`, and like it no user of this project.

`KERNELS` of a source lists `@cute.jit` functions, each of which launches one kernel with its own arguments in
their order. `POINTERS` gives the element type and the alignment in bytes of every pointer argument by name.
The architecture is that of `CUTE_DSL_ARCH`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

_CONFIG = r"!llvm\.struct<\(array<3 x i32>, array<3 x i32>, i64, ptr, ptr, i32\)>"
"""cudaLaunchConfig_t: grid, block, bytes of dynamic shared memory, stream, attributes and their number."""


def kernels(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The (name, function) pairs that `KERNELS` lists."""
    listed = getattr(module, "KERNELS", None)
    if not isinstance(listed, (tuple, list)) or not listed:
        raise ValueError("KERNELS must be a tuple of @cute.jit functions with at least one entry")
    names = [getattr(function, "__name__", "") for function in listed]
    if len(set(names)) < len(names) or not all(names):
        raise ValueError("KERNELS must list functions of different names")
    yield from zip(names, listed, strict=True)


def flags(module: ModuleType) -> list[str]:
    """Flags for the compilers that follow: none."""
    return []


def arguments(module: ModuleType, function: Any) -> tuple[list[Any], list[dict[str, str]]]:
    """Stand-ins for the arguments of a function, and their declarations: name and dtype, or "handle"."""
    from cutlass import cute
    from cutlass.cute.runtime import make_ptr

    stand_ins: list[Any] = []
    declared = []
    for name, parameter in inspect.signature(function).parameters.items():
        kind = parameter.annotation
        if kind is cute.Pointer:
            element, alignment = module.POINTERS[name]
            stand_ins.append(make_ptr(element, 0, cute.AddressSpace.gmem, assumed_align=alignment))
            declared.append({"name": name, "dtype": "handle"})
        else:
            stand_ins.append(kind(1))
            declared.append({"name": name, "dtype": str(kind.__name__).lower()})
    return stand_ins, declared


def lower(module: ModuleType, name: str, function: Any, folder: Path) -> dict[str, Any]:
    """Write `<name>.ptx` of one function; its entry, threads, dynamic shared bytes and declarations."""
    from cutlass import cute

    stand_ins, declared = arguments(module, function)
    compiled = cute.compile(function, *stand_ins)
    ptx = compiled.artifacts.PTX
    entries = re.findall(r"\.entry (\w+)\(", ptx)
    threads = re.findall(r"^\.reqntid (\d+), (\d+), (\d+)", ptx, re.MULTILINE)
    if len(entries) != 1 or len(threads) != 1:
        raise ValueError(f"{name} launches {len(entries)} kernels; launch one, with a block of constant size")
    (folder / f"{name}.ptx").write_text(ptx, encoding="utf-8")
    return {
        "entry": entries[0],
        "threads": [int(extent) for extent in threads[0]],
        "dynamic_shared_bytes": dynamic_shared_bytes(str(compiled.ir_module)),
        "declared": declared,
    }


def dynamic_shared_bytes(ir: str) -> int:
    """What the host code, in MLIR's LLVM dialect, stores into the launch configuration."""
    field = re.search(
        rf"(%\d+) = llvm\.getelementptr %\d+\[0, 2\] : \(!llvm\.ptr\) -> !llvm\.ptr, {_CONFIG}", ir
    )
    stored = field and re.search(rf"llvm\.store (%\d+), {field[1]} : i64", ir)
    constant = stored and re.search(rf"{stored[1]} = llvm\.mlir\.constant\((\d+) : i64\)", ir)
    if not constant:
        raise ValueError("the launch has no constant size of shared memory; install the pinned CuTe DSL")
    return int(constant[1])
