"""What the commands print: tables and progress for people, JSON for machines, one paragraph for an error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

console = Console(stderr=True)


def emit(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """Print rows: all their values as a JSON list, or the named columns as a table."""
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(box=None, pad_edge=False)
    numeric = {name for name in columns if rows and all(isinstance(row[name], int | float) for row in rows)}
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right" if name in numeric else "left")
    for row in rows:
        table.add_row(*(_cell(row[name]) for name in columns))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1e}" if 0 < abs(value) < 0.05 else f"{value:.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


@contextmanager
def progress(title: str, total: int) -> Iterator[Progress]:
    """A bar on standard error with one task; it leaves nothing behind when done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        bar.add_task(title, total=total)
        yield bar


def complain(error: object) -> None:
    """Print an error paragraph on standard error, unwrapped, so that its paths and commands can be copied."""
    print(f"error: {error}", file=sys.stderr)


def note(text: str) -> None:
    """Print what is no error but should be known, on standard error."""
    print(f"note: {text}", file=sys.stderr)
