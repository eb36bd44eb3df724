"""`kgen bench`: time specs on this machine's card, beside a baseline and the card's limits."""

from __future__ import annotations

import sys
from dataclasses import asdict

import typer

from gen.cli.options import FAILED, Json, Specs, paths
from gen.cli.output import complain, emit, progress
from gen.pipeline import Prepared, build, prepare

COLUMNS = ("name", "sizes", "us", "floor_us", "share_of_copy", "baseline_us", "ratio", "error")


def bench(specs: Specs = None, json: Json = False) -> None:
    """Time specs on the CUDA card: medians of graph replays, beside a baseline and the card's limits."""
    import tempfile
    from pathlib import Path

    from gen.bench.measure import bench_module
    from gen.check.on_cuda import card_arch
    from gen.compile import Compiled, CompileError
    from gen.run import RunError

    prepared = prepare(paths(specs))
    try:
        arch = card_arch()
    except RunError as error:
        complain(error)
        raise typer.Exit(FAILED) from error
    timed = [item for item in prepared if bench_module(item.spec)]
    for item in prepared:
        if item not in timed:
            print(f"{item.spec.name}: the family {item.spec.family} has no bench", file=sys.stderr)
    built: list[tuple[Prepared, Compiled]] = []
    failed = False

    def done(item: Prepared, result: Compiled | CompileError) -> None:
        nonlocal failed
        if isinstance(result, CompileError):
            failed = True
            complain(f"{item.spec.name}: {result}")
        else:
            built.append((item, result))

    with tempfile.TemporaryDirectory() as folder, progress("compiling", len(timed)):
        build(timed, Path(folder), arch=arch, on_done=done)
    from gen.bench.session import Session

    session = Session()
    print(session.headline(), file=sys.stderr)
    rows = [asdict(row) for row in session.rows((item.spec, compiled) for item, compiled in built)]
    emit(rows, COLUMNS, json)
    if failed:
        raise typer.Exit(FAILED)
