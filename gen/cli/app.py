"""`kgen list | check | build | fuzz | schema`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from gen.cli.output import complain, emit, progress
from gen.spec import SpecError, bounds, write_schema
from gen.spec import schema as spec_schema

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,  # a box would break the paths and commands of a message
    pretty_exceptions_enable=False,
    help="Generates, compiles and verifies GPU kernels for sm_120a from YAML specs, with or without a GPU.",
)

FAILED, BAD_SPEC, INTERRUPTED = 1, 2, 130

Specs = Annotated[
    Optional[list[Path]], typer.Argument(help="Spec files or folders of them.", show_default="specs/")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Build = Annotated[Path, typer.Option("--out", help="The folder of generated kernels.")]
DeviceName = Annotated[str, typer.Option("--device", help="The card to plan for, a name of gen/devices/.")]


def main() -> None:
    """Run the command line; errors are one paragraph, 2 is the exit status of a bad spec, 1 of a failure."""
    try:
        app()
    except SpecError as error:
        complain(error)
        sys.exit(BAD_SPEC)
    except OSError as error:
        complain(f"{error.filename or 'the system'}: {error.strerror}; nothing is half-written")
        sys.exit(FAILED)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            complain("interrupted; nothing is half-written, and the same command starts again")
        raise


def _paths(specs: list[Path] | None) -> list[Path]:
    return specs or [Path("specs")]


@app.command("list")
def list_(specs: Specs = None, build: Build = Path("build"), json: Json = False) -> None:
    """Every spec: family, backend, target, and whether its generated files are current."""
    from gen.pipeline import prepare

    states = {None: "not built", False: "stale", True: "current"}
    rows = [
        {
            "name": item.spec.name,
            "family": item.spec.family,
            "backend": str(item.spec.backend),
            "target": str(item.spec.target),
            "spec": str(item.spec.path),
            "state": states[item.is_current(build)],
        }
        for item in prepare(_paths(specs))
    ]
    emit(rows, ("name", "family", "backend", "target", "state"), json)


@app.command()
def check(
    specs: Specs = None,
    size: Annotated[
        Optional[list[str]], typer.Option(help="A run-time size, NAME=N; the others take their maximum.")
    ] = None,
    device: DeviceName = "rtx_pro_6000",
    json: Json = False,
) -> None:
    """Validate specs and print their plans: tiles, shared memory, grid and splits for given sizes."""
    from gen.pipeline import prepare

    card, wanted, prepared = _device(device), _sizes(size), prepare(_paths(specs))
    known = sorted({name for item in prepared for name in item.family.fuzz_sizes(item.spec)})
    for name in wanted.keys() - set(known):
        raise typer.BadParameter(f"no spec here has {name!r}; use {', '.join(known)}", param_hint="--size")
    rows: list[dict[str, Any]] = []
    for item in prepared:
        spec: Any = item.spec
        sizes = {}
        for name in item.family.fuzz_sizes(spec):
            low, high = bounds(getattr(spec.shapes, name))
            sizes[name] = wanted.get(name, 1 if name == "tokens" else high)
            if not low <= sizes[name] <= high:
                reason = f"the size {sizes[name]} asked for is outside {low} to {high}"
                raise spec.error(f"shapes.{name}", reason, f"ask for {min(max(sizes[name], low), high)}")
        plan = item.family.launch_plan(spec, sizes, card)
        rows.append(
            {
                "name": spec.name,
                "device": card.name,
                "sizes": sizes,
                "tile": spec.tile.model_dump(),
                "threads": item.plan.threads,
                "shared_bytes": item.plan.shared_bytes,
                "blocks_per_sm": card.blocks_per_sm(item.plan.threads, item.plan.shared_bytes),
                "splits": plan.splits.count,
                "tiles_per_split": plan.splits.tiles_per_split,
                "blocks": plan.splits.blocks,
                "waves": plan.splits.waves,
                "last_wave_fill": round(plan.splits.last_wave_fill, 3),
                "grids": {launch.kernel: list(launch.grid) for launch in plan.launches},
                "scratch_bytes": plan.scratch_bytes,
            }
        )
    if not json:
        for row in rows:
            row["sizes"] = " ".join(f"{k}={v}" for k, v in row["sizes"].items())
            row["grid"] = " ".join(f"{k} {'x'.join(map(str, v))}" for k, v in row["grids"].items())
    columns = (
        "name",
        "sizes",
        "shared_bytes",
        "splits",
        "tiles_per_split",
        "blocks",
        "waves",
        "last_wave_fill",
        "grid",
    )
    emit(rows, columns, json)


@app.command()
def build(specs: Specs = None, out: Build = Path("build"), json: Json = False) -> None:
    """Render and compile specs; exit status 1 where a kernel does not compile, spills or exceeds a limit."""
    from gen.compile import Compiled, CompileError
    from gen.pipeline import Prepared, limits_exceeded, prepare
    from gen.pipeline import build as build_all

    prepared = prepare(_paths(specs))
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


@app.command()
def fuzz(
    specs: Specs = None,
    on: Annotated[str, typer.Option(help="What executes the kernels: interpreter.")] = "interpreter",
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
    from gen.check.case import Case
    from gen.check.session import fuzz_specs
    from gen.check.strategies import validate
    from gen.pipeline import prepare

    if on != "interpreter":
        raise typer.BadParameter(f"{on!r} is not an executor; use interpreter", param_hint="--on")
    card, prepared = _device(device), prepare(_paths(specs))
    chosen = None
    if case is not None:
        try:
            chosen = Case.from_json(case)
            for item in prepared:
                validate(item.spec, item.family, chosen)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--case") from error
    with progress("fuzzing", 1) as bar:
        results = fuzz_specs(
            prepared,
            out,
            card,
            examples=examples,
            seed=seed,
            case=chosen,
            shrink=shrink,
            jobs=jobs,
            on_progress=lambda count, total: bar.update(bar.task_ids[0], completed=count, total=total),
        )
    rows = [
        {
            "name": name,
            "examples": result.examples,
            "out_rms_error": result.worst.get("out", 0.0),
            "seconds": round(result.seconds, 1),
            "state": "failed" if result.failure else "passed",
            "failure": result.failure,
        }
        for name, result in results.items()
    ]
    emit(rows, ("name", "examples", "out_rms_error", "seconds", "state"), json)
    for row in rows:
        if row["failure"]:
            complain(row["failure"])
    if any(row["failure"] for row in rows):
        raise typer.Exit(FAILED)


@app.command()
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

    prepared = prepare(_paths(specs))
    require_empty(out)
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
        [{"folder": str(out), "arch": arch, "specs": len(built), "cases": cases}],
        ("folder", "arch", "specs", "cases"),
        json,
    )


@app.command()
def schema(
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("specs/schema.json"),
    json: Json = False,
) -> None:
    """Write the JSON schema of specs, for editors; with --json print it instead."""
    if json:
        import json as encoder

        print(encoder.dumps(spec_schema(), indent=2))
        return
    write_schema(out)


def _device(name: str) -> Any:
    from gen import device as devices

    if name not in devices.names():
        known = ", ".join(devices.names())
        raise typer.BadParameter(f"{name!r} is not one of {known}", param_hint="--device")
    return devices.load(name)


def _sizes(options: list[str] | None) -> dict[str, int]:
    sizes = {}
    for option in options or []:
        name, _, number = option.partition("=")
        if not (number.isascii() and number.isdecimal() and len(number) <= 10):
            raise typer.BadParameter(f"{option!r} is not NAME=N, such as tokens=4", param_hint="--size")
        sizes[name] = int(number)
    return sizes
