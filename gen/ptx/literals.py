"""Operands: literals, names, vectors, addresses and parenthesized argument lists."""

from __future__ import annotations

import re
import struct
from functools import lru_cache

from gen.ptx.syntax import Address, Immediate, Name, Operand, TensorAddress, Vector

_NAME = re.compile(r"[%A-Za-z_$][\w$%.]*$")
_INTEGER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9]\d*)U?$")
_ADDRESS = re.compile(r"\[\s*([^\]+\-\s]+)\s*([+-][\s+-]*\w+)?\s*\]$")


def split_operands(text: str) -> list[str]:
    """Splits at commas outside brackets; empty text gives an empty list."""
    if not text:
        return []
    if not any(mark in text for mark in "{[("):
        return [item.strip() for item in text.split(",")]
    out, depth, start = [], 0, 0
    for i, mark in enumerate(text):
        if mark in "{[(":
            depth += 1
        elif mark in "}])":
            depth -= 1
        elif mark == "," and depth == 0:
            out.append(text[start:i].strip())
            start = i + 1
    out.append(text[start:].strip())
    return out


def parse_integer(text: str) -> int:
    """A PTX integer literal. Raises ValueError."""
    match = _INTEGER.match(text)
    if not match:
        raise ValueError(f"cannot read the integer {text!r}")
    sign, digits = match.groups()
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    value = int(digits, 8) if octal else int(digits, 0)
    return -value if sign == "-" else value


@lru_cache(maxsize=65536)
def parse_operand(text: str) -> Operand:
    """One operand. Raises ValueError with what it could not read."""
    first = text[:1]
    if first == "%" or first.isalpha() or first in ("_", "$"):
        if "|" in text:
            return Vector(tuple(parse_operand(part.strip()) for part in text.split("|")))
        if _NAME.match(text):
            return Name(text)
    elif first == "!":
        return Name(text[1:].strip(), negated=True)
    elif first == "{" or first == "(":
        return Vector(tuple(parse_operand(part) for part in split_operands(text[1:-1].strip())))
    elif first == "[":
        return _address(text)
    elif text[:2] in ("0f", "0F", "0d", "0D"):
        size = 32 if text[1] in "fF" else 64
        bits = int(text[2:], 16)
        code = "<f" if size == 32 else "<d"
        return Immediate(struct.unpack(code, bits.to_bytes(size // 8, "little"))[0], bits, size)
    elif _INTEGER.match(text):
        value = parse_integer(text)
        return Immediate(value, value)
    else:
        value64 = float(text)
        return Immediate(value64, struct.unpack("<q", struct.pack("<d", value64))[0], 64)
    raise ValueError(f"cannot read the operand {text!r}")


def _address(text: str) -> Operand:
    if "," in text:
        parts = split_operands(text[1:-1].strip())
        where, place = parse_operand(f"[{parts[0]}]"), parse_operand(parts[1])
        if len(parts) != 2 or not isinstance(where, Address) or not isinstance(place, Vector):
            raise ValueError(f"cannot read the tensor address {text!r}")
        return TensorAddress(where, place.items)
    match = _ADDRESS.match(text)
    if not match:
        raise ValueError(f"cannot read the address {text!r}")
    base, offset = match.groups()
    if base[0].isdigit():
        return Address(None, parse_integer(base))
    return Address(Name(base), parse_integer("".join(offset.split()).removeprefix("+")) if offset else 0)
