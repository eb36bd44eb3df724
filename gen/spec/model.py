"""The part of a spec that every kernel family shares."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pydantic import PrivateAttr

from gen.spec.errors import SpecError
from gen.spec.fields import Name, Section, Split
from gen.spec.yaml import Document
from gen.values import Backend, Choice, Target


class KernelSpec(Section):
    """A validated spec. A family narrows the types of its sections and of `family` and `layout`."""

    name: Name
    """Identifier of the kernel and of its folder in `build/`; unique over all specs."""
    family: Name
    """The kernel family, which decides what the other sections hold."""
    backend: Backend
    """The language of the generated source."""
    target: Target
    """The architecture to compile for."""
    shapes: Section
    """Sizes: an integer is fixed at compile time, {min, max} is chosen by each launch."""
    layout: Choice
    """How the inputs are laid out in memory."""
    dtypes: Section
    """Element types of inputs and outputs."""
    split: Split
    """How the reduction axis is divided over blocks."""
    tile: Section
    """The work of one block."""
    features: Section
    """What the kernel does beyond the plain computation."""
    tolerances: Section
    """How far results may be from the reference."""

    _document: Document | None = PrivateAttr(default=None)

    @property
    def path(self) -> Path:
        """The file that this spec was read from; `<name>.yaml` for one made in memory."""
        return self._document.path if self._document else Path(f"{self.name}.yaml")

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON of the values: comments, spacing and key order do not count."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def line(self, field: str = "") -> int | None:
        """The line of a dotted field, or of its nearest parent; None for a spec made in memory."""
        return self._document.line(tuple(field.split("."))) if self._document else None

    def error(self, field: str, reason: str, fix: str) -> SpecError:
        """The error for a later stage to raise where it cannot use `field` (dotted, such as `tile.keys`)."""
        return SpecError(self.path, self.line(field), field, reason, fix)

    def located(self, document: Document) -> KernelSpec:
        """This spec, knowing the file that it came from."""
        self._document = document
        return self
