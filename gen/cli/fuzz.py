"""`kgen fuzz`: property-test specs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from gen.cli.options import FAILED, Build, DeviceName, Json, Specs, device_named, paths
from gen.cli.output import complain, emit, note, progress
from gen.pipeline import Prepared, prepare

if TYPE_CHECKING:
    from gen.check.case import Case


def fuzz(
    specs: Specs = None,
    on: Annotated[str, typer.Option(help="What executes the kernels: interpreter or cuda.")] = "interpreter",
    examples: Annotated[int, typer.Option(min=0, help="Drawn cases a spec, after the must-test ones.")] = 25,
    seed: Annotated[int, typer.Option(help="Seed of the drawn cases.")] = 0,
    case: Annotated[Optional[str], typer.Option(help="Check this one case, as a failure prints it.")] = None,
    shrink: Annotated[bool, typer.Option(help="Look for a smaller failing case.")] = False,
    jobs: Annotated[
        Optional[int], typer.Option(min=1, help="Specs at once; by default the number of cores.")
    ] = None,
    device: DeviceName = "rtx_pro_6000",
    out: Build = Path("build"),
    json: Json = False,
) -> None:
    """Property-test specs against PyTorch; exit status 1 and a replay command where one fails."""
    from gen.check.on_cuda import card_arch, fuzz_on_cuda
    from gen.check.session import fuzz_specs
    from gen.run import RunError

    if on not in ("interpreter", "cuda"):
        raise typer.BadParameter(f"{on!r} is not an executor; use interpreter or cuda", param_hint="--on")
    card, prepared = device_named(device), prepare(paths(specs))
    chosen = _case(case, prepared)
    with progress("fuzzing", 1) as bar:

        def show(count: int, total: int) -> None:
            bar.update(bar.task_ids[0], completed=count, total=total)

        shared: dict[str, Any] = {"examples": examples, "seed": seed, "case": chosen, "on_progress": show}
        if on == "cuda":
            try:
                results = fuzz_on_cuda(prepared, card_arch(), **shared)
            except RunError as error:
                complain(error)
                raise typer.Exit(FAILED) from error
        else:
            results = fuzz_specs(prepared, out, card, shrink=shrink, jobs=jobs, **shared)
    rows = [
        {
            "name": name,
            "examples": result.examples,
            "out_rms_error": result.worst.get("out", 0.0),
            "seconds": round(result.seconds, 1),
            "state": "failed" if result.failure else "not run" if result.not_run else "passed",
            "failure": result.failure,
            "not_run": result.not_run,
        }
        for name, result in results.items()
    ]
    emit(rows, ("name", "examples", "out_rms_error", "seconds", "state"), json)
    for row in rows:
        if row["not_run"]:
            note(f"{row['name']} was not run: {row['not_run']}")
        if row["failure"]:
            complain(row["failure"])
    if any(row["failure"] for row in rows):
        raise typer.Exit(FAILED)


def _case(text: str | None, prepared: Sequence[Prepared]) -> Case | None:
    """The case of `--case`, checked against every spec. Raises typer.BadParameter."""
    from gen.check.case import Case
    from gen.check.strategies import validate

    if text is None:
        return None
    try:
        case = Case.from_json(text)
        for item in prepared:
            validate(item.spec, item.family, case)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--case") from error
    return case
