"""Loads specs from files and folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from gen import families
from gen.spec import yaml
from gen.spec.errors import SpecError, nearest, quote
from gen.spec.model import KernelSpec
from gen.spec.refuse import refuse


def load(path: Path) -> KernelSpec:
    """The spec in one file; raises `SpecError`, and nothing else, for any content."""
    return validate(yaml.read(path))


def load_many(paths: Sequence[Path]) -> list[KernelSpec]:
    """The specs in files and, sorted, in the `*.yaml` of folders and their subfolders; each file once.

    `SpecError` for the first wrong file, a folder without specs, or two files with one name.
    """
    files: dict[Path, Path] = {}
    for path in paths:
        try:
            inside = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
            for file in inside:
                files.setdefault(file.resolve(), file)
        except (
            OSError,
            RuntimeError,
            ValueError,
        ) as error:  # a name too long, a loop of links, a null character
            raise SpecError(path, None, "", f"cannot be read ({error})", "check the path") from error
        if not inside:
            raise SpecError(
                path, None, "", "the folder holds no .yaml file", "name a spec or a folder of specs"
            )
    specs: dict[str, KernelSpec] = {}
    for file in files.values():
        spec = load(file)
        if other := specs.get(spec.name):
            reason = f"{quote(spec.name)} is also the name in {other.path}:{other.line('name')}"
            raise spec.error("name", reason, "give each spec its own name")
        specs[spec.name] = spec
    return list(specs.values())


def validate(document: yaml.Document) -> KernelSpec:
    """The spec that a parsed document holds; `SpecError` where it holds none."""
    value, known = document.value, families.names()
    if not isinstance(value, dict):
        what = "the file is empty" if value is None else f"{quote(value)} is not a mapping"
        raise document.error((), what, "start with 'name:' and 'family:'")
    if "family" not in value:
        raise document.error(("family",), "the key is missing", f"add 'family:' ({', '.join(known)})")
    family = value["family"]
    if family not in known:
        reason = f"{quote(family)} is not one of {', '.join(known)}"
        raise document.error(("family",), reason, f"use {nearest(family, known) or known[0]}")
    model: type[KernelSpec] = families.model(family)
    try:
        return model.model_validate(value).located(document)
    except ValidationError as error:
        raise refuse(model, error, document) from error
