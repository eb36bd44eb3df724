"""Reads the part of YAML 1.2 that a spec needs, with the line of every key.

A spec is mappings, lists and plain scalars. Anchors, aliases, merge keys, tags, directives and several
documents have no use in one and are refused, so a file cannot expand beyond its size or name a Python type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from gen.spec.errors import SpecError, dotted, quote

MAX_BYTES = 1 << 20
MAX_NODES = 10_000
MAX_DEPTH = 16
MAX_SCALAR_CHARACTERS = 1_000

KeyPath = tuple[str | int, ...]

# The core schema of YAML 1.2 (section 10.3.2), without octal and hexadecimal integers: sizes are decimal.
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_NAN = re.compile(r"\.(nan|NaN|NAN)")
# What YAML 1.2 (section 5.1) does not call printable, the tab, which it forbids as indentation, and
# the two Unicode line breaks, which readers count differently.
_FORBIDDEN = re.compile(
    r"[^\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


@dataclass(frozen=True)
class Document:
    """One parsed file: its plain value and the line, from 1, of every key and list item."""

    path: Path
    value: Any
    lines: Mapping[KeyPath, int]

    def line(self, path: KeyPath) -> int:
        """The line of `path`, or of the nearest parent that the file has; 1 for an empty file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def error(self, path: KeyPath, reason: str, fix: str, more: int = 0) -> SpecError:
        """A `SpecError` at `path`."""
        return SpecError(self.path, self.line(path), dotted(path), reason, fix, more)


def read(path: Path) -> Document:
    """Reads and parses `path`; `SpecError` where it is missing, unreadable, too large or not such YAML."""
    try:
        if path.is_dir():
            raise SpecError(path, None, "", "this is a folder, not a spec", "name a .yaml file")
        if not path.is_file():
            raise SpecError(path, None, "", "there is no such regular file", "check the path")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(
            path, None, "", f"cannot be read ({error.strerror})", "check its permissions"
        ) from error
    return parse(data, path)


def parse(data: bytes, path: Path) -> Document:
    """Parses the bytes of one file; `path` is used in errors only."""
    if len(data) > MAX_BYTES:
        raise SpecError(
            path, None, "", f"the file is larger than {MAX_BYTES} bytes", "a spec has about 30 lines"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reason = f"byte {data[error.start]:#04x} is not UTF-8"
        raise SpecError(path, line, "", reason, "save the file as UTF-8") from error
    if match := _FORBIDDEN.search(text):
        line = text.count("\n", 0, match.start()) + 1
        name = "a tab" if match[0] == "\t" else f"the character U+{ord(match[0]):04X}"
        raise SpecError(
            path, line, "", f"{name} has no place in a spec", "use spaces and printable characters"
        )
    return _Reader(path).document(text)


@dataclass
class _Open:
    """A mapping or list whose end has not been read yet; `key` is the mapping key waiting for its value."""

    path: KeyPath
    value: dict[str, Any] | list[Any]
    key: str | None = None

    def next_path(self) -> KeyPath:
        if isinstance(self.value, list):
            return (*self.path, len(self.value))
        return self.path if self.key is None else (*self.path, self.key)

    def add(self, value: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(value)
        elif self.key is not None:
            self.value[self.key] = value
            self.key = None


@dataclass
class _Reader:
    """Builds a document from parser events without recursion, so that depth is a number to check."""

    path: Path
    lines: dict[KeyPath, int] = field(default_factory=dict)
    stack: list[_Open] = field(default_factory=list)
    root: Any = None
    nodes: int = 0
    documents: int = 0

    def document(self, text: str) -> Document:
        for event in self._events(text):
            self._check(event)
            kind = type(event).__name__
            if kind == "ScalarEvent":
                self._scalar(event)
            elif kind in ("MappingStartEvent", "SequenceStartEvent"):
                self._start(event, {} if kind == "MappingStartEvent" else [])
            elif kind in ("MappingEndEvent", "SequenceEndEvent"):
                self.stack.pop()
        return Document(self.path, self.root, self.lines)

    def _events(self, text: str) -> Iterator[Any]:
        try:
            yield from YAML(typ="safe", pure=True).parse(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            reason = f"not valid YAML ({' '.join(str(error.problem or error.context).split())[:100]})"
            line = mark.line + 1 if mark else None
            raise SpecError(
                self.path, line, "", reason, "check indentation, colons and quotes here"
            ) from error
        except Exception as error:  # the scanner lets others out, such as ValueError for "\\U00110000"
            raise SpecError(self.path, None, "", "not valid YAML", "check indentation and quotes") from error

    def _refuse(self, event: Any, reason: str, fix: str) -> SpecError:
        path = self.stack[-1].next_path() if self.stack else ()
        return SpecError(self.path, event.start_mark.line + 1, dotted(path), reason, fix)

    def _check(self, event: Any) -> None:
        kind = type(event).__name__
        if kind == "DocumentStartEvent":
            self.documents += 1
            if event.version or event.tags:
                raise self._refuse(event, "a % directive has no place in a spec", "remove it")
            if self.documents > 1:
                raise self._refuse(
                    event, "a second YAML document starts here", "put each spec in its own file"
                )
        if getattr(event, "anchor", None):
            name = quote(event.anchor)
            raise self._refuse(event, f"the anchor or alias {name} is not allowed", "write the value out")
        if getattr(event, "tag", None):
            raise self._refuse(event, f"the tag {quote(event.tag)} is not allowed", "write the plain value")
        if hasattr(event, "value") or kind.endswith("StartEvent"):
            self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self._refuse(event, f"more than {MAX_NODES} values", "a spec has about 30")

    def _start(self, event: Any, value: dict[str, Any] | list[Any]) -> None:
        path: KeyPath = ()
        if self.stack:
            parent = self.stack[-1]
            if isinstance(parent.value, dict) and parent.key is None:
                raise self._refuse(event, "a key is a mapping or a list", "use a name as the key")
            path = parent.next_path()
            parent.add(value)
        else:
            self.root = value
        if len(self.stack) == MAX_DEPTH:
            raise self._refuse(event, f"nested more than {MAX_DEPTH} deep", "a spec nests 3 deep")
        self.lines.setdefault(path, event.start_mark.line + 1)
        self.stack.append(_Open(path, value))

    def _scalar(self, event: Any) -> None:
        if len(event.value) > MAX_SCALAR_CHARACTERS:
            reason = f"a value of {len(event.value)} characters"
            raise self._refuse(event, reason, f"use at most {MAX_SCALAR_CHARACTERS}")
        plain = event.implicit[0]
        if not self.stack:
            self.root = _resolve(event.value) if plain else event.value
            self.lines[()] = event.start_mark.line + 1
            return
        parent = self.stack[-1]
        if isinstance(parent.value, dict) and parent.key is None:
            self._key(event, parent, parent.value, plain)
            return
        self.lines.setdefault(parent.next_path(), event.start_mark.line + 1)
        parent.add(_resolve(event.value) if plain else event.value)

    def _key(self, event: Any, parent: _Open, mapping: dict[str, Any], plain: bool) -> None:
        key = event.value
        if plain and key == "<<":
            raise self._refuse(event, "the merge key << is not allowed", "write the keys out")
        if plain and not isinstance(_resolve(key), str):
            raise self._refuse(
                event, f"the key {quote(_resolve(key))} is not a name", "use a name as the key"
            )
        path = (*parent.path, key)
        if key in mapping:
            reason = f"the key is already on line {self.lines[path]}"
            line = event.start_mark.line + 1
            raise SpecError(self.path, line, dotted(path), reason, "keep one of the two")
        self.lines[path] = event.start_mark.line + 1
        parent.key = key


def _resolve(text: str) -> bool | int | float | str | None:
    """The value of a plain scalar by the core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if match := _INFINITY.fullmatch(text):
        return -math.inf if match[1] == "-" else math.inf
    return math.nan if _NAN.fullmatch(text) else text
