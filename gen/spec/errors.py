"""The one error that a wrong spec raises, and the way values are quoted in it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

QUOTED_CHARACTERS = 60
"""The longest quotation of a spec's own text in a message."""


class SpecError(Exception):
    """A spec that cannot be used: where (path, line, field), why (reason) and what would work (fix).

    `line` counts from 1 and is None where the file as a whole is at fault; `field` is a dotted path such as
    `tile.keys`, empty for the whole file; `more` is the number of further errors in the same file. `str()` is
    one paragraph, whatever characters the spec contains.
    """

    def __init__(
        self, path: Path, line: int | None, field: str, reason: str, fix: str, more: int = 0
    ) -> None:
        self.path = path
        self.line = line
        self.field = field
        self.reason = reason
        self.fix = fix
        self.more = more
        super().__init__(path, line, field, reason, fix, more)

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else f"{self.path}"
        parts = [where, self.field] if self.field else [where]
        text = ": ".join([*parts, f"{self.reason}; {self.fix}."])
        if self.more:
            text += f" The file has {self.more} more error{'s' if self.more > 1 else ''}."
        return printable(text)


def printable(text: str) -> str:
    """`text` on one line that any terminal and any comment can hold: other characters appear as escapes."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def quote(value: object) -> str:
    """`value` as a spec would spell it, in printable ASCII of at most `QUOTED_CHARACTERS` characters."""
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else ascii(value)
    return text if len(text) <= QUOTED_CHARACTERS else text[: QUOTED_CHARACTERS - 3] + "..."


def dotted(path: Iterable[str | int]) -> str:
    """A key path as `a.b[0].c`; keys that are not plain identifiers appear quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part.isascii() and part.isidentifier() and len(part) <= QUOTED_CHARACTERS
            text += "." * bool(text) + (part if plain else quote(part))
    return text


def nearest(word: object, choices: Iterable[str]) -> str | None:
    """The member of `choices` that `word` most likely stands for, or None where nothing resembles it."""
    known = list(choices)
    lowered = {choice.lower(): choice for choice in known}
    matches = difflib.get_close_matches(str(word)[:QUOTED_CHARACTERS].lower(), lowered, n=1, cutoff=0.5)
    return lowered[matches[0]] if matches else None
