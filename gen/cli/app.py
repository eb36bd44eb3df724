"""The command `kgen` and its exit statuses."""

from __future__ import annotations

import sys

import typer

from gen.cli import bench, build, fuzz, inspect, sanitize
from gen.cli.options import BAD_SPEC, FAILED, INTERRUPTED
from gen.cli.output import complain
from gen.spec import SpecError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,  # a box would break the paths and commands of a message
    pretty_exceptions_enable=False,
    help="Generates, compiles and verifies GPU kernels for sm_120a from YAML specs, with or without a GPU.",
)
app.command("list")(inspect.list_)
app.command()(inspect.check)
app.command()(build.build)
app.command()(fuzz.fuzz)
app.command()(sanitize.sanitize)
app.command()(bench.bench)
app.command()(build.pack)
app.command()(inspect.schema)


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
