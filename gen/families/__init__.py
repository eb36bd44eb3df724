"""Kernel families, one package each: spec model, reference, inputs, launch plan and work model."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gen.spec import KernelSpec


def names() -> list[str]:
    """The families that exist, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


def module(name: str) -> ModuleType:
    """The package of the family `name`; `KeyError` where `names()` does not list it."""
    if name not in names():
        raise KeyError(name)
    return importlib.import_module(f"{__name__}.{name}")


def model(name: str) -> type[KernelSpec]:
    """The spec model of the family `name`: the `Spec` of its module `spec`, which alone needs pydantic."""
    found: type[KernelSpec] = importlib.import_module(f"{__name__}.{name}.spec").Spec
    return found
