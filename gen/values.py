"""The values that a spec is made of, without the machinery that validates them.

What runs kernels and checks them needs these and neither pydantic nor YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol, TypeVar

INT32_MAX = 2**31 - 1
MAX_SPLITS = 1024

C = TypeVar("C", bound="Choice")


class Choice(str, Enum):
    """A closed set of words; each value is a word of `[a-z0-9_]`, safe in generated source."""

    def __str__(self) -> str:
        return str(self.value)

    @classmethod
    def spellings(cls: type[C]) -> Mapping[str | int | float, C]:
        """What a spec may write for each member, the recommended spelling first; by default the value."""
        return {member.value: member for member in cls}

    # Only pydantic calls these, so only then is there need of it.
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from gen.spec.words import core_schema_of

        return core_schema_of(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        from gen.spec.words import json_schema_of

        return json_schema_of(cls)


class Backend(Choice):
    """The language of the generated source."""

    TILELANG = "tilelang"
    CUTLASS = "cutlass"


class Target(Choice):
    """The compiler's architecture name."""

    SM_120A = "sm_120a"
    SM_121A = "sm_121a"


class SplitWord(Choice):
    """Split strategies without a number."""

    NONE = "none"
    WAVES = "waves"


class SizeRange(Protocol):
    """A size that a launch chooses, between `min` and `max`, both included."""

    @property
    def min(self) -> int:
        """The smallest value."""

    @property
    def max(self) -> int:
        """The largest value."""


def bounds(size: int | SizeRange) -> tuple[int, int]:
    """The least and greatest value that a size can have."""
    return (size, size) if isinstance(size, int) else (size.min, size.max)
