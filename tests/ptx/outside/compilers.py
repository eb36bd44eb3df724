"""Compiles sources of this folder to PTX, with mistakes put in: CUDA C++ by nvcc, CuTe DSL by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from gen.compile.toolchain import find_toolchain

HERE = Path(__file__).parent
Edit = tuple[str, str]


def edited(text: str, edits: tuple[Edit, ...]) -> str:
    """`text` with each (old, new) replaced, in turn; `old` must be in it exactly once."""
    for old, new in edits:
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in the source"
        text = text.replace(old, new)
    return text


def compile_to_ptx(name: str, folder: Path, *edits: Edit) -> str:
    """The PTX that nvcc makes of the edited source for sm_120a, by way of files in `folder`."""
    tools, source, out = find_toolchain(), folder / name, folder / "out.ptx"
    source.write_text(edited((HERE / name).read_text(), edits))
    command = [tools.nvcc, "-ccbin", tools.host_compiler, "-std=c++17", "-arch=sm_120a", "-ptx"]
    command += ["-lineinfo", "-I", HERE, "-o", out, source]
    subprocess.run(command, check=True, env=tools.environment(folder))
    return out.read_text()


_CUTE = """
import importlib, json, sys
from gen.compile.lower_cutlass import dynamic_shared_bytes
kernel = importlib.import_module(sys.argv[1]).compiled()
print(json.dumps([kernel.artifacts.PTX, dynamic_shared_bytes(str(kernel.ir_module))]))
"""


def compile_cute(name: str, folder: Path, *edits: Edit) -> tuple[str, int]:
    """(PTX, bytes of dynamic shared memory) of what `compiled()` of an edited CuTe DSL source gives."""
    (folder / name).write_text(edited((HERE / name).read_text(), edits))
    environment = find_toolchain().environment(folder)
    environment["PYTHONPATH"] = f"{folder}:{HERE.parents[2]}"
    command = [sys.executable, "-c", _CUTE, Path(name).stem]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    ptx, shared_bytes = json.loads(done.stdout.splitlines()[-1])
    return ptx, shared_bytes
