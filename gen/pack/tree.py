"""Specs and compiled kernels as JSON, and back without pydantic or a compiler."""

from __future__ import annotations

import importlib
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from gen.compile.result import Compiled, Kernel, Parameter
from gen.values import Choice

if TYPE_CHECKING:
    from gen.spec import KernelSpec

_CHOICE, _CLASS = "$choice", "$class"
_TEXTS = ("cuda", "ptx")


def encode_spec(spec: KernelSpec) -> dict[str, Any]:
    """The fields of a spec; a `Choice` becomes its class and value."""
    return {**_encode(spec), "path": str(spec.path)}


def _encode(value: Any) -> Any:
    if isinstance(value, Choice):
        return {_CLASS: f"{type(value).__module__}:{type(value).__qualname__}", _CHOICE: value.value}
    if hasattr(type(value), "model_fields"):
        return {name: _encode(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, list):
        return [_encode(part) for part in value]
    return value


def decode_spec(data: dict[str, Any]) -> Any:
    """A stand-in with the spec's attributes, all that running and checking look at."""
    spec = _decode(data)
    spec.path = Path(spec.path)
    return spec


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(part) for part in value]
    if not isinstance(value, dict):
        return value
    if _CHOICE in value:
        module, _, name = value[_CLASS].partition(":")
        return getattr(importlib.import_module(module), name)(value[_CHOICE])
    return SimpleNamespace(**{name: _decode(part) for name, part in value.items()})


def encode_kernel(kernel: Kernel, cubin: str) -> dict[str, Any]:
    """What launching needs to know; `cubin` is the file that holds the code."""
    plain = {f.name: getattr(kernel, f.name) for f in fields(Kernel) if f.name not in (*_TEXTS, "cubin")}
    return {**plain, "parameters": [[p.name, p.type] for p in kernel.parameters], "cubin": cubin}


def decode_compiled(kernels: list[dict[str, Any]], folder: Path) -> Compiled:
    """The kernels of a spec, their code read from files below `folder`."""
    made = {}
    for data in kernels:
        parameters = tuple(Parameter(name, kind) for name, kind in data["parameters"])
        code = (folder / data["cubin"]).read_bytes()
        made[data["name"]] = Kernel(
            **{**data, "parameters": parameters, "cubin": code, "cuda": "", "ptx": ""}
        )
    return Compiled(made, kernels[0]["arch"], 0.0, True)
