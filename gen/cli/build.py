"""`kgen build` and `pack`: render and compile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gen.cli.options import FAILED, Build, Json, Specs, paths
from gen.cli.output import complain, emit, note, progress


def build(specs: Specs = None, out: Build = Path("build"), json: Json = False) -> None:
    """Render and compile specs; exit status 1 where a kernel does not compile, spills or exceeds a limit."""
    from gen.compile import Compiled, CompileError
    from gen.pipeline import Prepared, limits_exceeded, prepare
    from gen.pipeline import build as build_all

    prepared = prepare(paths(specs))
    rows: dict[str, list[dict[str, object]]] = {}
    faults: list[str] = []
    with progress("compiling", len(prepared)) as bar:

        def done(item: Prepared, result: Compiled | CompileError) -> None:
            bar.advance(bar.task_ids[0])
            if isinstance(result, CompileError):
                faults.append(f"{item.spec.name}: {result}")
                return
            for kernel in result.kernels.values():
                faults.extend(f"{item.spec.name}: {fault}" for fault in limits_exceeded(kernel))
                rows.setdefault(item.spec.name, []).append(
                    {
                        "name": item.spec.name,
                        "kernel": kernel.name,
                        "arch": kernel.arch,
                        "threads": kernel.threads,
                        "registers": kernel.registers,
                        "shared_bytes": kernel.shared_bytes,
                        "spill_bytes": kernel.spill_store_bytes + kernel.spill_load_bytes,
                        "stack_bytes": kernel.stack_bytes,
                        "seconds": round(result.seconds, 2),
                        "from_cache": result.from_cache,
                    }
                )

        build_all(prepared, out, on_done=done)
    columns = ("name", "kernel", "arch", "threads", "registers", "shared_bytes", "spill_bytes", "seconds")
    emit([row for name in sorted(rows) for row in rows[name]], columns, json)
    for fault in faults:
        complain(fault)
    if faults:
        raise typer.Exit(FAILED)


def pack(
    out: Annotated[Path, typer.Option(help="The folder to fill, empty or absent.")],
    specs: Specs = None,
    arch: Annotated[str, typer.Option(help="What the cubins are for, such as sm_90a.")] = "sm_120a",
    examples: Annotated[int, typer.Option(min=0, help="Drawn cases a spec, after the must-test ones.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the drawn cases.")] = 0,
    json: Json = False,
) -> None:
    """Pack compiled kernels with their properties, for a machine with a card, torch and cuda-bindings."""
    from gen.compile import Compiled, CompileError
    from gen.pack.write import require_empty, write_pack
    from gen.pipeline import Prepared, prepare
    from gen.pipeline import build as build_all

    prepared = prepare(paths(specs))
    require_empty(out)
    left_out = {item.spec.name: missing for item in prepared if (missing := item.missing_on(arch))}
    prepared = [item for item in prepared if item.spec.name not in left_out]
    built: list[tuple[Prepared, Compiled]] = []
    faults: list[str] = []
    with progress("compiling", len(prepared)) as bar:

        def done(item: Prepared, result: Compiled | CompileError) -> None:
            bar.advance(bar.task_ids[0])
            if isinstance(result, CompileError):
                faults.append(f"{item.spec.name}: {result}")
            else:
                built.append((item, result))

        build_all(prepared, out / "sources", arch=arch, on_done=done)
    for fault in faults:
        complain(fault)
    if faults:
        raise typer.Exit(FAILED)
    built.sort(key=lambda pair: pair[0].spec.name)
    cases = write_pack(built, out, examples=examples, seed=seed)
    emit(
        [{"folder": str(out), "arch": arch, "specs": len(built), "cases": cases, "left_out": left_out}],
        ("folder", "arch", "specs", "cases"),
        json,
    )
    for name, missing in left_out.items():
        note(f"{name} was left out: {missing}")
