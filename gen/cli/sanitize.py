"""`kgen sanitize`: run kernels on the interpreter and report what they do and do wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from gen.cli.options import FAILED, Build, DeviceName, Json, Specs, device_named, paths
from gen.cli.output import complain, console, emit, progress
from gen.pipeline import Prepared, build, prepare

if TYPE_CHECKING:
    from gen.check.sanitize import Totals
    from gen.compile import Compiled, CompileError
    from gen.ptx import Kernel

_COLUMNS = (
    "name", "kernel", "launches", "instructions", "global_read", "global_written", "shared_read",
    "shared_written", "bank_conflicts", "warned", "state",
)  # fmt: skip
_GRID_LIMIT = 1 << 31


def sanitize(
    specs: Specs = None,
    ptx: Annotated[Optional[Path], typer.Option(help="A PTX file to run instead of specs.")] = None,
    entry: Annotated[Optional[str], typer.Option(help="Its entry; needless if it has one.")] = None,
    grid: Annotated[str, typer.Option(help="Blocks of the launch, X[,Y,Z].")] = "1",
    block: Annotated[str, typer.Option(help="Threads of a block, X[,Y,Z].")] = "1",
    shared: Annotated[int, typer.Option(min=0, help="Bytes of dynamic shared memory a block.")] = 0,
    arg: Annotated[
        Optional[list[str]],
        typer.Option(
            help="One argument of the launch, in order: f32[1024]=random, u8[4096]=zeros, i32[64]=0..9, "
            "f32[16]=undefined (reading it before a write is an error), i32=7, f32=1.5, @file.npy or null."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random arguments.")] = 0,
    device: DeviceName = "rtx_pro_6000",
    out: Build = Path("build"),
    json: Json = False,
) -> None:
    """Run the must-test cases of specs, or one launch of a PTX file, under every check of the interpreter.

    A row a kernel: instructions of all threads, bytes, bank conflicts (of first blocks) and warnings; exit
    status 1 and the fault where a kernel reads or writes out of bounds, races, deadlocks or the like.
    """
    if ptx is not None:
        if specs:
            raise typer.BadParameter("takes the place of specs; give one or the other", param_hint="--ptx")
        kernel = _kernel(ptx, entry)
        totals = {(str(ptx), kernel.name): _launch(kernel, grid, block, shared, arg or [], seed)}
    else:
        if arg or entry:
            raise typer.BadParameter("needs --ptx FILE", param_hint="--arg" if arg else "--entry")
        totals = _specs(prepare(paths(specs)), out, device)
    rows = [{"name": name, "kernel": entry, **total.as_row()} for (name, entry), total in totals.items()]
    emit([{**row, "warned": len(row["warnings"])} for row in rows], _COLUMNS, json)
    for row in rows:
        for warning in [] if json else row["warnings"]:
            text = f"warning: {row['name']} {row['kernel']}: {warning}"
            console.print(text, markup=False, highlight=False, soft_wrap=True)
    failures = [row["failure"] for row in rows if row["failure"]]
    for failure in dict.fromkeys(failures):
        complain(failure)
    if failures:
        raise typer.Exit(FAILED)


def _specs(prepared: list[Prepared], folder: Path, device: str) -> dict[tuple[str, str], Totals]:
    """Compile specs and run their must-test cases; totals by spec and kernel."""
    from gen.check.sanitize import Totals
    from gen.check.sanitize import sanitize as run
    from gen.compile import CompileError

    card = device_named(device)
    totals: dict[tuple[str, str], Totals] = {}
    compiled: list[tuple[Prepared, Compiled | CompileError]] = []
    with progress("sanitizing", 2 * len(prepared)) as bar:

        def done(item: Prepared, result: Compiled | CompileError) -> None:
            compiled.append((item, result))
            bar.advance(bar.task_ids[0])

        build(prepared, folder, on_done=done)
        for item, result in sorted(compiled, key=lambda pair: prepared.index(pair[0])):
            name = item.spec.name
            if isinstance(result, CompileError):
                totals[name, ""] = Totals(failure=f"{name}: {result}")
            else:
                totals |= {(name, k): total for k, total in run(item.spec, result, card).items()}
            bar.advance(bar.task_ids[0])
    return totals


def _launch(kernel: Kernel, grid: str, block: str, shared: int, arguments: list[str], seed: int) -> Totals:
    """Run one launch of an entry. Raises typer.BadParameter for options that do not fit it."""
    import numpy as np

    from gen.check.sanitize import Totals
    from gen.cli.arguments import argument
    from gen.ptx import Fault, PtxError

    sizes = _dimensions(grid, "--grid", _GRID_LIMIT), _dimensions(block, "--block", 1024)
    wanted = kernel.parameters
    if len(arguments) != len(wanted):
        takes = f"takes {len(wanted)} arguments ({', '.join(wanted)})" if wanted else "takes no arguments"
        raise typer.BadParameter(f"{kernel.name} {takes}, got {len(arguments)}", param_hint="--arg")
    random = np.random.default_rng(seed)
    try:
        values: list[Any] = [argument(text, random) for text in arguments]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--arg") from error
    totals = Totals()
    try:
        report = kernel.launch(*sizes, values, shared)
        for message in report.messages:
            console.print(message, end="", markup=False, highlight=False, soft_wrap=True)
        totals.add(report)
    except Fault as fault:
        totals.failure, totals.fault = f"{kernel.name}: {fault}", fault
    except PtxError as error:
        raise typer.BadParameter(str(error), param_hint="the launch") from error
    return totals


def _kernel(path: Path, entry: str | None) -> Kernel:
    """An entry of a PTX file. Raises typer.BadParameter."""
    from gen.ptx import Module, PtxError

    try:
        module = Module(path.read_text())
        if entry is None:
            if len(module.entries) != 1:
                names = ", ".join(module.entries) or "none"
                raise typer.BadParameter(f"name one of the entries of {path}: {names}", param_hint="--entry")
            entry = module.entries[0]
        if entry not in module.entries:
            names = ", ".join(module.entries) or "none"
            raise typer.BadParameter(
                f"{entry!r} is not an entry of {path}; it has {names}", param_hint="--entry"
            )
        return module[entry]
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{path} is not text; pass PTX, not a cubin", param_hint="--ptx") from error
    except PtxError as error:
        raise typer.BadParameter(f"{path}: {error}", param_hint="--ptx") from error


def _dimensions(text: str, option: str, limit: int) -> tuple[int, ...]:
    """Up to three positive sizes. Raises typer.BadParameter."""
    parts = text.split(",")
    if len(parts) > 3 or not all(p.isascii() and p.isdecimal() and 0 < int(p) < limit + 1 for p in parts):
        raise typer.BadParameter(
            f"{text!r} is not X, X,Y or X,Y,Z, each from 1 to {limit}", param_hint=option
        )
    return tuple(int(p) for p in parts)
