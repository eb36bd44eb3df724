"""Kernel generator for Blackwell workstation cards: spec → plan → render → compile → run → check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gen.op import Op

__all__ = ["load"]


def load(name: str | Path) -> Op:
    """A spec, by path or by its name below `specs/`, as a callable; see `gen.op.Op`.

    Raises gen.spec.SpecError for a spec that cannot work and KeyError for an unknown name.
    """
    from gen.op import find  # packages of gen that need no torch stay light

    return find(name)
