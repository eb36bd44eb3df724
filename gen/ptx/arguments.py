"""Launch arguments: their bytes in the parameter buffer, and the memory that they make accessible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gen.ptx.arrays import DTYPES, Array
from gen.ptx.errors import PtxError
from gen.ptx.memory import Allocation, GlobalMemory, Memory, Undefined
from gen.ptx.program import parameter_layout
from gen.ptx.spans import span_of
from gen.ptx.syntax import Function, Variable
from gen.ptx.tensormap import MAP_BYTES, TensorMap


def marshal(
    function: Function, args: Sequence[Any], heap: GlobalMemory, memory: Memory, written: set[int] | None
) -> Array:
    """The parameter buffer of a launch, uint8; arrays and tensor maps are registered in `heap`.

    written: positions of the arguments that the kernel may write (None: all). Raises `PtxError` for
    arguments that do not fit the parameters.
    """
    offsets, size = parameter_layout(function)
    buffer = _aligned_bytes(size)
    for i, (argument, parameter) in enumerate(zip(args, function.parameters, strict=True)):
        name = f"argument {i}"
        writable = written is None or i in written
        data = _scalar_bytes(argument, parameter, name)
        if isinstance(argument, TensorMap):
            _register(argument.array, f"{name} (by tensor map)", heap, memory, writable)
            data = _map_bytes(argument, parameter, name, heap)
        elif data is None:
            if parameter.size != 8:
                raise PtxError(f"{function.name}: {name} is an array, the parameter is {parameter.type}")
            data = _register(argument, name, heap, memory, writable).to_bytes(8, "little")
        at = offsets[parameter.name]
        buffer[at : at + parameter.size] = np.frombuffer(data, np.uint8)
    heap.allocations.append(Allocation("the parameters", span_of(buffer), None, False))
    return buffer


def _aligned_bytes(size: int) -> Array:
    """Zeroed bytes at a multiple of 128."""
    buffer = np.zeros(size + MAP_BYTES, np.uint8)
    start = -buffer.ctypes.data % MAP_BYTES
    return buffer[start : start + size]


def _register(argument: Any, name: str, heap: GlobalMemory, memory: Memory, writable: bool) -> int:
    """Makes an array accessible; its address."""
    undefined = isinstance(argument, Undefined)
    array = argument.array if undefined else argument
    span = span_of(array)
    if span.end > span.start:
        state = memory.shadow(array, span, create=undefined)
        heap.allocations.append(Allocation(name, span, state, writable))
    return span.pointer


def _map_bytes(argument: TensorMap, parameter: Variable, name: str, heap: GlobalMemory) -> bytes:
    """The parameter of a tensor map: the map itself, or a pointer to it in global memory."""
    handle = argument.handle(len(heap.tensor_maps))
    heap.tensor_maps.append(argument)
    if parameter.size == MAP_BYTES:
        if parameter.align < MAP_BYTES // 2:
            raise PtxError(f"{name}: a tensor map needs a parameter aligned to 64, it has {parameter.align}")
        return handle
    if parameter.size != 8:
        raise PtxError(f"{name} is a tensor map, the parameter has {parameter.size} bytes")
    stored = _aligned_bytes(MAP_BYTES)
    stored[:] = np.frombuffer(handle, np.uint8)
    heap.allocations.append(Allocation(name, span_of(stored), None, False))
    heap.keep.append(stored)
    return int(stored.ctypes.data).to_bytes(8, "little")


def _scalar_bytes(argument: Any, parameter: Variable, name: str) -> bytes | None:
    """A number, None or bytes as the parameter's bytes; None for anything else (an array)."""
    if argument is None:
        return bytes(parameter.size)
    if isinstance(argument, bytes | bytearray):
        if len(argument) != parameter.size:
            raise PtxError(f"{name}: {len(argument)} bytes for a parameter of {parameter.size}")
        return bytes(argument)
    if not isinstance(argument, bool | int | float | np.generic):
        return None
    kind = parameter.type
    if kind in ("f32", "f64"):
        return bytes(np.asarray(argument, DTYPES[kind]).tobytes())
    if isinstance(argument, float | np.floating):
        raise PtxError(f"{name}: the float {argument} for a parameter of type {kind}")
    value, bits = int(argument), 8 * parameter.size
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise PtxError(f"{name}: {value} does not fit the parameter type {kind}")
    return (value & ((1 << bits) - 1)).to_bytes(parameter.size, "little")
