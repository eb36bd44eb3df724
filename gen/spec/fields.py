"""The field types of a spec: integers out of a few, sizes, splits and names.

Every value that reaches a template is one of these, a bounded number or a checked name: no free
text of a spec does.
"""

from __future__ import annotations

import builtins
import keyword
import re
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from gen.spec.errors import nearest, quote
from gen.values import INT32_MAX, MAX_SPLITS, SplitWord, bounds

NAME_PATTERN = r"^[a-z][a-z0-9_]{0,63}$"


def refusal(reason: str, fix: str, at: tuple[str, ...] = ()) -> PydanticCustomError:
    """The exception for a validator to raise; `at` is the offending field relative to the validated one."""
    return PydanticCustomError("spec", "{reason}", {"reason": reason, "fix": fix, "at": at})


class Section(BaseModel):
    """A mapping of a spec: immutable, no unknown keys, no conversion between types."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


@dataclass(frozen=True)
class OneOf:
    """Annotates an `int` that must be one of `values` (ascending)."""

    values: tuple[int, ...]

    def check(self, value: int) -> int:
        """`value` itself where it is allowed."""
        if value not in self.values:
            best = min(self.values, key=lambda allowed: (abs(allowed - value), -allowed))
            raise refusal(f"{quote(value)} is not one of {', '.join(map(str, self.values))}", f"use {best}")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Any:
        return {"type": "integer", "enum": list(self.values)}


class RunTimeSize(Section):
    """A size that a launch chooses, between `min` and `max`, both included."""

    min: Annotated[int, Field(ge=0, le=INT32_MAX)]
    """The smallest value that a launch may pass."""
    max: Annotated[int, Field(ge=0, le=INT32_MAX)]
    """The largest value that a launch may pass."""

    @model_validator(mode="after")
    def _ordered(self) -> RunTimeSize:
        if self.min > self.max:
            raise refusal(
                f"min {self.min} is greater than max {self.max}", f"use {self.max} or less", ("min",)
            )
        return self


def _size_form(value: object) -> object:
    if type(value) is int or isinstance(value, RunTimeSize | dict):
        return value
    reason = f"{quote(value)} is neither an integer nor {{min, max}}"
    raise refusal(reason, "write 64 for a compile-time size or {min: 1, max: 64} for a run-time size")


# The tags are in parentheses so that an error's location can be told from a spec's keys.
Size: TypeAlias = Annotated[
    Annotated[int, Tag("(integer)")] | Annotated[RunTimeSize, Tag("(range)")],
    Discriminator(lambda value: "(integer)" if isinstance(value, int) else "(range)"),
    BeforeValidator(_size_form),
]
"""A compile-time integer or a run-time `{min, max}`."""


@dataclass(frozen=True)
class Within:
    """Annotates an `int` or `Size` whose every value is a multiple of `step` from `low` to `high`."""

    low: int
    high: int
    step: int = 1

    def check(self, size: int | RunTimeSize) -> int | RunTimeSize:
        """`size` itself where it is allowed."""
        for part, value in zip(("min", "max"), bounds(size), strict=True):
            at = (part,) if isinstance(size, RunTimeSize) else ()
            rounded = (value + self.step // 2) // self.step * self.step
            best = min(max(rounded, self.low), self.high)
            if not self.low <= value <= self.high:
                raise refusal(f"{quote(value)} is outside {self.low} to {self.high}", f"use {best}", at)
            if value % self.step:
                raise refusal(f"{quote(value)} is not a multiple of {self.step}", f"use {best}", at)
        return size

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Any:
        integer: dict[str, Any] = {"type": "integer", "minimum": self.low, "maximum": self.high}
        if self.step > 1:
            integer["multipleOf"] = self.step
        if handler(schema).get("type") == "integer":
            return integer
        both = {"properties": {"min": integer, "max": integer}, "required": ["min", "max"]}
        return {"anyOf": [integer, {"type": "object", **both, "additionalProperties": False}]}


# Words that an identifier of generated source must not hide, and those that YAML reads as no string.
_MODULES = frozenset({"cuda", "cutlass", "numpy", "tilelang", "torch", "tvm"})
_RESERVED = _MODULES.union(keyword.kwlist, keyword.softkwlist, dir(builtins), {"true", "false", "null"})


def _check_name(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower())[:40].lstrip("_0123456789").rstrip("_")
    best = f"{plain or 'my'}_kernel" if plain in {*_RESERVED, ""} else plain
    if name in _RESERVED:
        raise refusal(f"{quote(name)} is a word of Python or the name of a module", f"use {best}")
    if not re.fullmatch(NAME_PATTERN[1:-1], name):
        reason = f"{quote(name)} is not a name (a-z, then a-z, 0-9 and _, at most 64 characters)"
        raise refusal(reason, f"use {best}")
    return name


Name: TypeAlias = Annotated[
    str, AfterValidator(_check_name), Field(json_schema_extra={"pattern": NAME_PATTERN})
]
"""An identifier: it names the kernel, its folder in `build/` and functions in generated source."""


class Fixed(Section):
    """Split the key axis into a fixed number of parts."""

    fixed: Annotated[int, Field(ge=1, le=MAX_SPLITS)]
    """The number of parts."""


def _split_form(value: object) -> object:
    if isinstance(value, Fixed | dict) or value in list(SplitWord):
        return value
    best = nearest(value, SplitWord) or "waves or {fixed: 4}"
    if type(value) is int and 1 <= value <= MAX_SPLITS:
        best = f"{{fixed: {value}}}"
    raise refusal(f"{quote(value)} is neither none, waves nor {{fixed: N}}", f"use {best}")


Split: TypeAlias = Annotated[
    Annotated[SplitWord, Tag("(word)")] | Annotated[Fixed, Tag("(fixed)")],
    Discriminator(lambda value: "(word)" if isinstance(value, str) else "(fixed)"),
    BeforeValidator(_split_form),
]
"""How the reduction axis is divided over blocks."""
