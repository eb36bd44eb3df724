"""`kgen list`, `check` and `schema`: what the specs say, without a compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from gen.cli.options import Build, DeviceName, Json, Specs, device_named, paths, sizes_of
from gen.cli.output import emit
from gen.spec import bounds, write_schema
from gen.spec import schema as spec_schema


def list_(specs: Specs = None, build: Build = Path("build"), json: Json = False) -> None:
    """Every spec: family, backend, target, whether its files are current, and its tensor-core instructions.

    The instructions are those in the machine code, known once `kgen build` has compiled the spec.
    """
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
            "mma": "not compiled" if (mma := item.instructions()) is None else ", ".join(mma) or "none",
        }
        for item in prepare(paths(specs))
    ]
    emit(rows, ("name", "family", "backend", "target", "state", "mma"), json)


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

    card, wanted, prepared = device_named(device), sizes_of(size), prepare(paths(specs))
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
