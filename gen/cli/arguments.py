"""Launch arguments as `--arg` writes them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from gen.ptx import Undefined

FORMS = (
    "TYPE[SHAPE]=random, =zeros, =arange, =undefined, =NUMBER or =LOW..HIGH for an array, TYPE=NUMBER for a "
    "scalar, @FILE.npy, or null"
)
_TYPES: dict[str, Any] = {
    **{f"{kind}{bits}": np.dtype(f"{kind}{bits // 8}") for kind in "iu" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
_ARGUMENT = re.compile(r"(\w+)(?:\[(\d+(?:[x,]\d+)*)\])?=(.+)")
_RANGE = re.compile(r"(.+?)\.\.(.+)")
_ALIGN = 256  # as cudaMalloc gives; also the bytes on either side that are no argument
_LIMIT = 1 << 32  # bytes of one array


def argument(text: str, random: np.random.Generator) -> Any:
    """The argument that `text` describes: an array, `Undefined`, a number, bytes or None.

    Raises ValueError with one paragraph that says what is wrong with it.
    """
    if text == "null":
        return None
    if text.startswith("@"):
        return _from_file(Path(text[1:]))
    match = _ARGUMENT.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is no argument; write {FORMS}")
    kind, shape, value = match.groups()
    if kind not in _TYPES:
        raise ValueError(f"{text!r}: {kind!r} is none of the types {', '.join(_TYPES)}")
    dtype = _TYPES[kind]
    if shape is None:
        number = _number(value, dtype, text)
        return (
            number if dtype.itemsize >= 4 or dtype.kind in "iu" else np.array(number).astype(dtype).tobytes()
        )
    sizes = tuple(int(n) for n in re.split("[x,]", shape))
    if math.prod(sizes) * dtype.itemsize > _LIMIT:
        raise ValueError(
            f"{text!r}: an array of {math.prod(sizes) * dtype.itemsize:,} bytes; at most {_LIMIT:,}"
        )
    return _array(sizes, dtype, value, random, text)


def _array(
    shape: tuple[int, ...], dtype: np.dtype[Any], value: str, random: np.random.Generator, text: str
) -> Any:
    size = math.prod(shape)
    content: np.ndarray[Any, Any]
    if value == "undefined":
        return Undefined(_placed(np.zeros(shape, dtype)))
    if value == "zeros":
        content = np.zeros(size)
    elif value == "arange":
        content = np.arange(size)
    elif value == "random" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        content = random.integers(limits.min, limits.max, size, dtype, endpoint=True)
    elif value == "random":
        content = random.standard_normal(size)
    elif match := _RANGE.fullmatch(value):
        low, high = (_number(part, dtype, text) for part in match.groups())
        if low > high:
            raise ValueError(f"{text!r}: the range {value} is empty")
        if dtype.kind in "iu":
            content = random.integers(low, high, size, dtype, endpoint=True)
        else:
            content = random.uniform(low, high, size)
    else:
        content = np.full(size, _number(value, dtype, text))
    with np.errstate(over="ignore"):  # beyond a float format it is an infinity
        return _placed(content.astype(dtype).reshape(shape))


def _number(text: str, dtype: np.dtype[Any], argument: str) -> Any:
    integral = dtype.kind in "iu"
    try:
        number = int(text, 0) if integral else float(text)
    except ValueError:
        what = "an integer" if integral else "a number"
        raise ValueError(f"{argument!r}: {text!r} is not {what}; write {FORMS}") from None
    if integral and not np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
        raise ValueError(f"{argument!r}: {text} does not fit {dtype.name}")
    return number


def _from_file(path: Path) -> Any:
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ValueError(
            f"{path}: {error.strerror or error}; @FILE.npy names an array that numpy.save wrote"
        ) from None
    except ValueError as error:
        raise ValueError(f"{path}: no array that numpy.save wrote ({error})") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iufb" or not array.size:
        raise ValueError(f"{path}: not a .npy file with an array of numbers")
    return _placed(array)


def _placed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy aligned as on a device, away from every other argument."""
    room = np.zeros(array.nbytes + 3 * _ALIGN, np.uint8)
    start = _ALIGN + -room.ctypes.data % _ALIGN
    out: np.ndarray[Any, Any] = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out
