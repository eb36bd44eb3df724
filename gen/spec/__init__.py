"""The spec language: YAML files in, validated models out, errors with file, line and field."""

from gen.spec.errors import SpecError
from gen.spec.fields import Fixed, RunTimeSize, Size, Split
from gen.spec.load import load, load_many
from gen.spec.model import KernelSpec
from gen.spec.schema import schema, write_schema
from gen.values import Backend, SplitWord, Target, bounds

__all__ = [
    "Backend",
    "Fixed",
    "KernelSpec",
    "RunTimeSize",
    "Size",
    "SpecError",
    "Split",
    "SplitWord",
    "Target",
    "bounds",
    "load",
    "load_many",
    "schema",
    "write_schema",
]
