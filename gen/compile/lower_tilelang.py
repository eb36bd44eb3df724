"""Lower the kernels of one TileLang source to CUDA C++: a program, run in a process of its own.

    python lower_tilelang.py SOURCE FOLDER

Writes `FOLDER/<kernel>.cu` for each kernel and `FOLDER/lowered.json`: either {"kernels": [...], "flags":
[...]} or {"error": {"kernel", "line", "message"}} with exit status 1 and the traceback on stderr. The program
imports nothing of this project, so what it does depends on the source and TileLang alone.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

# Lowering for sm_90 gives wgmma, another kernel; every arch is compiled from the same CUDA text.
TARGET = {"kind": "cuda", "arch": "sm_120a"}


def load(source: Path) -> ModuleType:
    """Import a source from its own path, which TileLang reads the kernels' text from."""
    spec = importlib.util.spec_from_file_location("generated_kernels", source)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} is not a Python source")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def prim_funcs(module: ModuleType) -> Iterator[tuple[str, Any]]:
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


def compiler_flags(configs: dict[str, Any]) -> list[str]:
    """nvcc flags that TileLang itself would derive from these pass configs."""
    flags = [flag for part in configs.get("tl.device_compile_flags", ()) for flag in shlex.split(part)]
    if configs.get("tl.enable_fast_math"):
        flags.append("--use_fast_math")
    level = configs.get("tl.ptxas_register_usage_level")
    if level is not None:
        flags.append(f"--ptxas-options=--register-usage-level={int(level)}")
    return flags


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


def lower(name: str, function: Any, configs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """CUDA text and launch facts of one prim_func: entry, threads, dynamic shared bytes, declarations."""
    import tilelang
    from tvm.target import Target

    if {"tilelang_compile_flags", "tilelang_pass_configs"} & set(function.attrs.keys()):
        raise ValueError(
            f"{name} annotates compile flags or pass configs; set PASS_CONFIGS of the file instead"
        )
    with Target(TARGET), tilelang.transform.PassContext(config=configs):
        artifact = tilelang.lower(function)
    kernels = list(artifact.device_mod.functions.values())
    if len(kernels) != 1:
        raise ValueError(
            f"{name} lowers to {len(kernels)} device kernels; write one T.Kernel in each prim_func"
        )
    attributes = kernels[0].attrs
    extents = attributes["thread_extent"]
    return artifact.kernel_source, {
        "name": name,
        "entry": str(attributes["global_symbol"]),
        "threads": [int(extents[f"threadIdx.{axis}"]) for axis in "xyz" if f"threadIdx.{axis}" in extents],
        "dynamic_shared_bytes": int(attributes.get("dyn_shared_memory_buf", 0)),
        "declared": declarations(function),
    }


def source_line(error: BaseException, source: Path) -> int | None:
    """The last line of `source` in an error's traceback."""
    if isinstance(error, SyntaxError) and error.filename == str(source):
        return error.lineno
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(source)]
    return lines[-1] if lines else None


def main(source: Path, folder: Path) -> int:
    """Lower every kernel of `source` into `folder`; 0, or 1 after writing the error."""
    # A program started by path finds its own folder first; the source must not import from there.
    sys.path.pop(0)
    kernel: str | None = None
    try:
        module = load(source)
        configs = dict(getattr(module, "PASS_CONFIGS", {}))
        lowered = []
        for kernel, function in prim_funcs(module):
            cuda, facts = lower(kernel, function, configs)
            (folder / f"{kernel}.cu").write_text(cuda, encoding="utf-8")
            lowered.append(facts)
        answer: dict[str, Any] = {"kernels": lowered, "flags": compiler_flags(configs)}
    except Exception as error:
        traceback.print_exc()
        message = next((line for line in str(error).splitlines() if line.strip()), "")
        answer = {
            "error": {
                "kernel": kernel,
                "line": source_line(error, source),
                "message": f"{type(error).__name__}: {message}",
            }
        }
    (folder / "lowered.json").write_text(json.dumps(answer), encoding="utf-8")
    return int("error" in answer)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
