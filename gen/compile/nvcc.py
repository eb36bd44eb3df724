"""CUDA C++ to PTX by nvcc, PTX to a cubin by ptxas, and what the tools say of the cubin."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gen.compile.result import CompileError
from gen.compile.toolchain import Toolchain

# -w: TileLang's and CUTLASS's headers warn, kernels are judged by what ptxas reports. An unsupported (newer)
# host compiler is allowed because it only preprocesses here.
NVCC_FLAGS = ("-std=c++20", "-w", "-allow-unsupported-compiler", "--ptx")


@dataclass(frozen=True)
class Resources:
    """What ptxas reports of one kernel: registers a thread; bytes of shared memory, stack and spills."""

    registers: int
    static_shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


def nvcc_command(tools: Toolchain, arch: str, flags: Sequence[str], kernel: str) -> list[str | Path]:
    """The command, run in the folder of `<kernel>.cu`, that writes `<kernel>.ptx` beside it."""
    compute = arch.replace("sm_", "compute_")
    includes = [f"-I{path}" for path in tools.includes]
    target = ["-gencode", f"arch={compute},code={arch}", "-ccbin", str(tools.host_compiler)]
    return [tools.nvcc, *NVCC_FLAGS, *includes, *target, *flags, "-o", f"{kernel}.ptx", f"{kernel}.cu"]


def ptxas_command(tools: Toolchain, arch: str, flags: Sequence[str], kernel: str) -> list[str | Path]:
    """The command, run in the folder of `<kernel>.ptx`, that writes `<kernel>.cubin` and prints resources."""
    return [tools.ptxas, f"-arch={arch}", "-v", *flags, "-o", f"{kernel}.cubin", f"{kernel}.ptx"]


def split_flags(flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Flags for (nvcc, ptxas): nvcc writes PTX only, so it cannot pass on what belongs to the assembler."""
    nvcc: list[str] = []
    ptxas: list[str] = []
    rest = iter(flags)
    for flag in rest:
        name, _, options = flag.partition("=")
        if name in ("--ptxas-options", "-Xptxas"):
            ptxas += (options or next(rest, "")).split(",")
        else:
            nvcc.append(flag)
    return nvcc, ptxas


def without_path_hash(ptx: str) -> str:
    """PTX with the hash in names of internal linkage zeroed: nvcc derives it from the file's path.

    The replacement has the same length, since mangled names carry their lengths.
    """
    for digest in set(re.findall(r"_INTERNAL_([0-9a-f]{8})_", ptx)):
        ptx = ptx.replace(f"_{digest}_", "_00000000_")
    return ptx


def compile_cuda(
    tools: Toolchain,
    folder: Path,
    kernel: str,
    arch: str,
    flags: Sequence[str],
    run: Callable[..., tuple[int, str]],
) -> None:
    """Compile `folder/<kernel>.cu` to `<kernel>.ptx` beside it, or raise CompileError.

    `run(command)` runs in `folder` and returns (exit status, output).
    """
    _checked("nvcc", *run(nvcc_command(tools, arch, flags, kernel)))
    path = folder / f"{kernel}.ptx"
    path.write_text(without_path_hash(path.read_text(encoding="utf-8")), encoding="utf-8")


def assemble_ptx(
    tools: Toolchain,
    folder: Path,
    kernel: str,
    arch: str,
    flags: Sequence[str],
    run: Callable[..., tuple[int, str]],
) -> tuple[str, bytes, Resources]:
    """Assemble `folder/<kernel>.ptx` to (PTX, cubin, resources), or raise CompileError."""
    log = _checked("ptxas", *run(ptxas_command(tools, arch, flags, kernel)))
    ptx = (folder / f"{kernel}.ptx").read_text(encoding="utf-8")
    return ptx, (folder / f"{kernel}.cubin").read_bytes(), parse_resources(log)


def tensor_core_instructions(
    tools: Toolchain, kernel: str, run: Callable[..., tuple[int, str]]
) -> tuple[str, ...]:
    """The different matrix instructions in the SASS of `<kernel>.cubin`, such as HMMA.16816.F32.BF16."""
    listing = _checked("nvdisasm", *run([tools.nvdisasm, "-c", f"{kernel}.cubin"], quiet=True))
    return tuple(sorted(set(re.findall(r"\b[A-Z]MMA\.[A-Z0-9._]+", listing))))


def parse_resources(log: str) -> Resources:
    """Resources of the one entry in the output of `ptxas -v`.

    Spills of functions that were not inlined count too. The stack is the cumulative one where ptxas gives it.
    """
    used = re.search(r"Used (\d+) registers.*", log)
    if used is None:
        raise CompileError(
            "ptxas -v reported no register count; install the pinned nvidia-cuda-nvcc package."
        )
    frames = [
        tuple(map(int, frame))
        for frame in re.findall(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log
        )
    ]
    shared = re.search(r"(\d+) bytes smem", used[0])
    stack = re.search(r"(\d+) bytes cumulative stack size", used[0])
    return Resources(
        registers=int(used[1]),
        static_shared_bytes=int(shared[1]) if shared else 0,
        stack_bytes=max([int(stack[1])] if stack else [frame[0] for frame in frames], default=0),
        spill_store_bytes=sum(frame[1] for frame in frames),
        spill_load_bytes=sum(frame[2] for frame in frames),
    )


def _checked(tool: str, status: int, output: str) -> str:
    if status == 0:
        return output
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    first = next(
        (line for line in lines if re.search(r"\b(error|fatal)\b", line)), lines[0] if lines else "no output"
    )
    raise CompileError(f"{tool} failed with exit status {status}: {first[:300]}.")
