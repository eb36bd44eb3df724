"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from gen import device as devices

FAILED, BAD_SPEC, INTERRUPTED = 1, 2, 130
"""Exit statuses: a check or a compilation failed; a spec or an option is wrong; Ctrl-C."""

Specs = Annotated[
    Optional[list[Path]], typer.Argument(help="Spec files or folders of them.", show_default="specs/")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Build = Annotated[Path, typer.Option("--out", help="The folder of generated kernels.")]
DeviceName = Annotated[str, typer.Option("--device", help="The card to plan for, a name of gen/devices/.")]


def paths(specs: list[Path] | None) -> list[Path]:
    """The specs asked for, by default all below `specs/`."""
    return specs or [Path("specs")]


def device_named(name: str) -> devices.Device:
    """The device of that name. Raises typer.BadParameter."""
    if name not in devices.names():
        known = ", ".join(devices.names())
        raise typer.BadParameter(f"{name!r} is not one of {known}", param_hint="--device")
    return devices.load(name)


def sizes_of(options: list[str] | None) -> dict[str, int]:
    """Run-time sizes from NAME=N options. Raises typer.BadParameter."""
    sizes = {}
    for option in options or []:
        name, _, number = option.partition("=")
        if not (number.isascii() and number.isdecimal() and len(number) <= 10):
            raise typer.BadParameter(f"{option!r} is not NAME=N, such as tokens=4", param_hint="--size")
        sizes[name] = int(number)
    return sizes
