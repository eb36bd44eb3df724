"""TileLang kernels to CUDA C++; one of the backends of `lower.py`, and like it no user of this project."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

# Lowering for sm_90 gives wgmma, another kernel; every arch is compiled from the same CUDA text.
TARGET = {"kind": "cuda", "arch": "sm_120a"}


def kernels(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The (name, prim_func) pairs that `KERNELS` lists, as objects or as names of module attributes."""
    kernels = getattr(module, "KERNELS", None)
    if not isinstance(kernels, (tuple, list)) or not kernels:
        raise ValueError("KERNELS must be a tuple of prim_funcs, or of their names, with at least one entry")
    seen: set[str] = set()
    for entry in kernels:
        function = getattr(module, entry, None) if isinstance(entry, str) else entry
        attributes = getattr(function, "attrs", None)
        if attributes is None or "global_symbol" not in attributes:
            raise ValueError(f"KERNELS lists {entry!r}, which is not a prim_func of this file")
        name = str(attributes["global_symbol"])
        if name in seen:
            raise ValueError(f"KERNELS lists {name!r} twice")
        seen.add(name)
        yield name, function


def flags(module: ModuleType) -> list[str]:
    """nvcc flags that TileLang itself would derive from the file's pass configs."""
    configs = _configs(module)
    given = [flag for part in configs.get("tl.device_compile_flags", ()) for flag in shlex.split(part)]
    if configs.get("tl.enable_fast_math"):
        given.append("--use_fast_math")
    level = configs.get("tl.ptxas_register_usage_level")
    if level is not None:
        given.append(f"--ptxas-options=--register-usage-level={int(level)}")
    return given


def declarations(function: Any) -> list[dict[str, str]]:
    """Declared parameters and dynamic sizes: name, name in the CUDA text, dtype ("handle" is a pointer).

    A buffer's data variable carries the emitted name, and `T.view` of a parameter renames that variable.
    """
    from tvm.tirx import Var, stmt_functor

    found: dict[str, dict[str, str]] = {}
    for parameter in function.params:
        if parameter not in function.buffer_map:
            found[parameter.name] = {"emitted": parameter.name, "dtype": str(parameter.dtype)}
            continue
        buffer = function.buffer_map[parameter]
        found[buffer.name] = {"emitted": buffer.data.name, "dtype": "handle"}
        for size in (*buffer.shape, *buffer.strides):
            stmt_functor.post_order_visit(
                size,
                lambda node: (
                    found.setdefault(node.name, {"emitted": node.name, "dtype": str(node.dtype)})
                    if isinstance(node, Var)
                    else None
                ),
            )
    return [{"name": name, **entry} for name, entry in found.items()]


def _configs(module: ModuleType) -> dict[str, Any]:
    return dict(getattr(module, "PASS_CONFIGS", {}))


def lower(module: ModuleType, name: str, function: Any, folder: Path) -> dict[str, Any]:
    """Write `<name>.cu` of one prim_func; its entry, threads, dynamic shared bytes and declarations."""
    import tilelang
    from tvm.target import Target

    if {"tilelang_compile_flags", "tilelang_pass_configs"} & set(function.attrs.keys()):
        raise ValueError(
            f"{name} annotates compile flags or pass configs; set PASS_CONFIGS of the file instead"
        )
    with Target(TARGET), tilelang.transform.PassContext(config=_configs(module)):
        artifact = tilelang.lower(function)
    lowered = list(artifact.device_mod.functions.values())
    if len(lowered) != 1:
        raise ValueError(
            f"{name} lowers to {len(lowered)} device kernels; write one T.Kernel in each prim_func"
        )
    (folder / f"{name}.cu").write_text(artifact.kernel_source, encoding="utf-8")
    attributes = lowered[0].attrs
    extents = attributes["thread_extent"]
    return {
        "entry": str(attributes["global_symbol"]),
        "threads": [int(extents[f"threadIdx.{axis}"]) for axis in "xyz" if f"threadIdx.{axis}" in extents],
        "dynamic_shared_bytes": int(attributes.get("dyn_shared_memory_buf", 0)),
        "declared": declarations(function),
    }
