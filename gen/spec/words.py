"""How pydantic reads a `Choice`, and how the JSON schema shows one."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic_core import CoreSchema, core_schema

from gen.spec.errors import nearest, quote
from gen.spec.fields import refusal
from gen.values import Choice

C = TypeVar("C", bound=Choice)


def read(choice: type[C], value: object) -> C:
    """The member that `value` spells."""
    if isinstance(value, choice):
        return value
    known = choice.spellings()
    if type(value) in (str, int, float):
        for spelling, member in known.items():
            if type(spelling) is type(value) and spelling == value:
                return member
    recommended = {member: str(spelling) for spelling, member in reversed(list(known.items()))}
    words = [recommended[member] for member in choice]
    reason = f"{quote(value)} is not one of {', '.join(words)}"
    raise refusal(reason, f"use {nearest(value, words) or words[0]}")


def core_schema_of(choice: type[Choice]) -> CoreSchema:
    """Validation by `read`; serialization to the member's value."""
    return core_schema.no_info_plain_validator_function(
        lambda value: read(choice, value),
        serialization=core_schema.plain_serializer_function_ser_schema(lambda member: member.value),
    )


def json_schema_of(choice: type[Choice]) -> dict[str, Any]:
    """The finite spellings as an enumeration."""
    finite = [s for s in choice.spellings() if not isinstance(s, float) or abs(s) < float("inf")]
    return {"enum": finite, "title": choice.__name__}
