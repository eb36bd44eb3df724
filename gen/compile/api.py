"""From a source file to compiled kernels: lowering, nvcc, ptxas and the cache put together."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from gen.compile.nvcc import assemble_ptx, compile_cuda, split_flags, tensor_core_instructions
from gen.compile.processes import Processes
from gen.compile.result import Compiled, CompileError, Kernel
from gen.compile.signature import check_bounds, check_launch, declared_signature, read_signature
from gen.compile.store import Store, content_key, default_cache
from gen.compile.toolchain import Toolchain, find_toolchain, host_compiler_version, toolchain

LOWER = Path(__file__).with_name("lower.py")
BACKENDS = ("tilelang", "cutlass")  # each has a lower_<backend>.py

STEP_SECONDS = 900.0  # two orders above the slowest step seen, so that a hang ends


def compile_source(
    source: Path, *, backend: str = "tilelang", arch: str = "sm_120a", cache: Path | None = None
) -> Compiled:
    """Compile every kernel that a generated source lists in `KERNELS`.

    The source is lowered in a process of its own: TileLang always for sm_120a, its CUDA text then being
    compiled for `arch`, and CuTe DSL for `arch` itself, such as sm_120a, sm_121a or sm_90a. `cache` is the
    folder of the compile cache, by default `$KGEN_CACHE` or
    the user's cache folder. Raises CompileError.
    """
    processes = Processes()
    try:
        return _compile(source, backend, arch, cache, processes)
    finally:
        processes.stop()


def find_compiled(text: str, *, backend: str, arch: str, cache: Path | None = None) -> Compiled | None:
    """What the cache has of a source's text; None where this toolchain has not compiled it for `arch`."""
    key = _key(text.encode(), backend, arch, find_toolchain())
    kernels = Store(cache if cache is not None else default_cache()).load(key)
    return Compiled(kernels, arch, 0.0, True) if kernels else None


def compile_many(
    sources: Iterable[Path],
    *,
    arch: str = "sm_120a",
    jobs: int | None = None,
    on_done: Callable[[Path, Compiled | CompileError], None],
    backend: str = "tilelang",
    cache: Path | None = None,
) -> None:
    """Compile sources in parallel and call `on_done` in this thread as each ends, failed or not.

    `jobs` is the number of sources at once, by default the CPU count. An interruption, or an exception of
    `on_done`, kills the compilers that run and is raised again; the cache then has whole entries only.
    """
    processes = Processes()
    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        futures = {pool.submit(_compile, s, backend, arch, cache, processes): s for s in sources}
        try:
            for future in as_completed(futures):
                error = future.exception()
                if error is not None and not isinstance(error, CompileError):
                    raise error
                on_done(futures[future], error if error is not None else future.result())
        finally:
            processes.stop()
            pool.shutdown(wait=True, cancel_futures=True)


def _compile(source: Path, backend: str, arch: str, cache: Path | None, processes: Processes) -> Compiled:
    start = time.monotonic()
    if backend not in BACKENDS:
        raise CompileError(f"There is no backend {backend!r}; choose one of {', '.join(BACKENDS)}.")
    if not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
        raise CompileError(f"{arch!r} is not an architecture; write one like sm_120a or sm_90a.")
    try:
        text = source.read_bytes()
    except OSError as error:
        raise CompileError(
            f"{source} cannot be read: {error.strerror}. Generate it before compiling."
        ) from error
    tools = find_toolchain()
    key = _key(text, backend, arch, tools)
    store = Store(cache if cache is not None else default_cache())
    kernels = store.load(key)
    from_cache = kernels is not None
    if kernels is None:
        with store.scratch() as scratch:
            try:
                kernels = _build(source.resolve(), backend, arch, tools, scratch, processes)
            except CompileError as error:
                log = store.keep(key, scratch)
                where = source.name + (f", kernel {error.kernel}" if error.kernel else "")
                message = f"{where}: {error} The full output is in {log}."
                raise CompileError(message, kernel=error.kernel, log=log) from error
            store.save(key, kernels, scratch)
    return Compiled(kernels, arch, time.monotonic() - start, from_cache)


def _key(text: bytes, backend: str, arch: str, tools: Toolchain) -> str:
    """Everything that decides the output; flags are in this package's own bytes and in the source."""
    settings = {"backend": backend, "arch": arch, "host": host_compiler_version(tools.host_compiler)}
    return content_key(
        [
            ("source", text),
            ("settings", json.dumps(settings | toolchain()).encode()),
            *((path.name, path.read_bytes()) for path in sorted(Path(__file__).parent.glob("*.py"))),
        ]
    )


def _build(
    source: Path, backend: str, arch: str, tools: Toolchain, scratch: Path, processes: Processes
) -> dict[str, Kernel]:
    def run(command: list[str | Path], quiet: bool = False) -> tuple[int, str]:
        try:
            status, output = processes.run(
                command, cwd=scratch, env=tools.environment(scratch, arch), timeout=STEP_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            name = Path(command[0]).name
            raise CompileError(
                f"{name} did not end within {STEP_SECONDS:.0f} s; simplify the kernel."
            ) from error
        with (scratch / "log.txt").open("a", encoding="utf-8") as log:
            shown = "" if quiet and status == 0 else output
            log.write(f"$ {' '.join(map(str, command))}\n{shown}exit status {status}\n\n")
        return status, output

    lowered = _lowered(scratch, *run([sys.executable, LOWER, backend, source, scratch]))
    kernels = {}
    for facts in lowered["kernels"]:
        try:
            kernels[facts["name"]] = _kernel(facts, lowered["flags"], arch, tools, scratch, run)
        except CompileError as error:
            raise CompileError(str(error), kernel=facts["name"]) from error
    return kernels


def _kernel(
    facts: dict[str, Any],
    flags: list[str],
    arch: str,
    tools: Toolchain,
    scratch: Path,
    run: Callable[..., tuple[int, str]],
) -> Kernel:
    name, entry, dynamic = facts["name"], facts["entry"], facts["dynamic_shared_bytes"]
    threads, *others = facts["threads"]
    if any(extent != 1 for extent in others):
        raise CompileError(f"a block of {facts['threads']} threads; make it one-dimensional.")
    text = scratch / f"{name}.cu"
    nvcc_flags, ptxas_flags = split_flags(flags)
    cuda = text.read_text(encoding="utf-8") if text.exists() else ""
    if cuda:
        parameters = read_signature(cuda, entry, facts["declared"])
        check_bounds(cuda, entry, threads)
        compile_cuda(tools, scratch, name, arch, nvcc_flags, run)
    else:
        parameters = declared_signature(facts["declared"])
    ptx, cubin, used = assemble_ptx(tools, scratch, name, arch, ptxas_flags, run)
    check_launch(ptx, entry, parameters, threads, dynamic)
    return Kernel(
        name=name,
        entry=entry,
        arch=arch,
        cuda=cuda,
        ptx=ptx,
        cubin=cubin,
        parameters=parameters,
        threads=threads,
        registers=used.registers,
        static_shared_bytes=used.static_shared_bytes,
        dynamic_shared_bytes=dynamic,
        spill_store_bytes=used.spill_store_bytes,
        spill_load_bytes=used.spill_load_bytes,
        stack_bytes=used.stack_bytes,
        mma=tensor_core_instructions(tools, name, run),
    )


def _lowered(scratch: Path, status: int, output: str) -> dict[str, Any]:
    """The answer of the lowering program, or CompileError for its error or for a process that died."""
    answer = scratch / "lowered.json"
    if not answer.exists():
        cause = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        last = next((line for line in reversed(output.splitlines()) if line.strip()), "no output")
        raise CompileError(f"lowering died with {cause}: {last[:300]}.")
    content: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in content:
        error = content["error"]
        line = f"line {error['line']}: " if error["line"] else ""
        raise CompileError(f"{line}{error['message'][:300].rstrip(' .:')}.", kernel=error["kernel"])
    return content
