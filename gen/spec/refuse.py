"""Turns pydantic's list of errors into one `SpecError` with line, reason and a value that works."""

from __future__ import annotations

import re
import typing
from typing import Any

from pydantic import BaseModel, ValidationError

from gen.spec.errors import SpecError, nearest, quote
from gen.spec.yaml import Document, KeyPath


def refuse(model: type[BaseModel], error: ValidationError, document: Document) -> SpecError:
    """The first error by line, and the number of others.

    Missing keys come last: beside an unknown key they are most often the same slip, which that key shows.
    """
    found = []
    for details in error.errors(include_url=False):
        path, reason, fix = _explain(model, dict(details))
        found.append((details["type"] == "missing", document.line(path), path, reason, fix))
    _, _, path, reason, fix = min(found, key=lambda item: item[:2])
    return document.error(path, reason, fix, more=len(found) - 1)


def _explain(model: type[BaseModel], details: dict[str, Any]) -> tuple[KeyPath, str, str]:
    """Field, reason and fix of one of pydantic's errors."""
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    # Tags of unions are in parentheses so that they can be told from keys; an unknown key may look so too.
    place, key = (
        (details["loc"][:-1], details["loc"][-1:]) if kind == "extra_forbidden" else (details["loc"], ())
    )
    path: KeyPath = (*(part for part in place if not str(part).startswith("(")), *key)
    shown = quote(value)
    if kind == "spec":
        path = (*path, *context.get("at", ()))
        return path, context.get("reason") or f"{shown} {details['msg']}", context["fix"]
    if kind == "missing":
        return path, "the key is missing", f"add '{path[-1]}:'"
    if kind == "extra_forbidden":
        known = _keys(model, path[:-1])
        near = nearest(path[-1], known)
        return path, "the key is unknown", f"use {near}" if near else f"the keys here are {', '.join(known)}"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return path, f"{shown} is not a mapping", f"give its keys: {', '.join(_keys(model, path))}"
    if kind in ("int_type", "int_from_float", "int_parsing"):
        return path, f"{shown} is not an integer", _integer_fix(value)
    if kind == "bool_type":
        return path, f"{shown} is neither true nor false", "use true or false"
    if kind in ("float_type", "finite_number"):
        return path, f"{shown} is not a finite number", "use a number such as 1.0e-3"
    if kind == "string_type":
        return path, f"{shown} is not a word", "use a word of letters, digits and _"
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", context["expected"])
        return path, f"{shown} is not one of {', '.join(words)}", f"use {nearest(value, words) or words[0]}"
    if kind == "greater_than_equal":
        return path, f"{shown} is below {context['ge']}", f"use {context['ge']}"
    if kind == "less_than_equal":
        return path, f"{shown} is above {context['le']}", f"use {context['le']}"
    return path, f"{shown} does not fit ({details['msg']})", "see specs/schema.json for what does"


def _integer_fix(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return f"write {quote(int(value))}"
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return f"write {quote(int(value))} without quotes"
    return "write a decimal integer such as 64"


def _keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The keys that a spec may have at `path`, looked up in the models."""
    for part in path:
        info = model.model_fields.get(str(part))
        inner = _models(info.annotation) if info else []
        if not inner:
            return []
        model = inner[0]
    return list(model.model_fields)


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models named in a type such as `Annotated[int | RunTimeSize, …]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in typing.get_args(annotation) for model in _models(inner)]
