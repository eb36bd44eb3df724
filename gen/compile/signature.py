"""The launch signature, read from the CUDA text and checked against the PTX and the declaration."""

from __future__ import annotations

import math
import re

from gen.compile.result import PARAMETER_BYTES, CompileError, Parameter, ParameterType

_KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(([^)]*)\) )?(\w+)\(([^;{]*)\) \{')

# The scalar types that TileLang's code generator writes.
_CUDA_TYPES: dict[str, ParameterType] = {
    "bool": "bool",
    "signed char": "i8",
    "short": "i16",
    "int": "i32",
    "int64_t": "i64",
    "uchar": "u8",
    "ushort": "u16",
    "uint": "u32",
    "uint64_t": "u64",
    "half_t": "f16",
    "float": "f32",
    "double": "f64",
}

_DTYPES: dict[str, ParameterType] = {
    "handle": "pointer",
    "bool": "bool",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
}

_PTX_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


def read_signature(cuda: str, entry: str, declared: list[dict[str, str]]) -> tuple[Parameter, ...]:
    """Parameters of `entry` in launch order, under the names that the prim_func declares.

    `declared` lists name, emitted name and dtype of every parameter and dynamic size. The emitted ones are a
    part of them, since TileLang drops what a kernel never reads. Raises CompileError for a parameter that is
    not declared, has another type, or is neither a pointer nor a scalar.
    """
    _, text = _definition(cuda, entry)
    parameters = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        kind, emitted = _split(part, entry)
        matches = [d for d in declared if d["emitted"] == emitted]
        if len(matches) != 1:
            reason = "is not declared by" if not matches else "stands for several parameters of"
            raise CompileError(
                f"the emitted parameter {emitted!r} {reason} the prim_func. Declare it, and give every "
                "T.view of a parameter a name of its own."
            )
        name, dtype = matches[0]["name"], matches[0]["dtype"]
        if _DTYPES.get(dtype) != kind:
            raise CompileError(
                f"the parameter {name!r} is declared as {dtype} and emitted as {kind}; declare it as {kind}."
            )
        parameters.append(Parameter(name, kind))
    return tuple(parameters)


def declared_signature(declared: list[dict[str, str]]) -> tuple[Parameter, ...]:
    """Parameters in their declared order, for a DSL that keeps it. Raises CompileError for a new type."""
    for entry in declared:
        if entry["dtype"] not in _DTYPES:
            raise CompileError(
                f"the parameter {entry['name']!r} has the type {entry['dtype']}; use a scalar."
            )
    return tuple(Parameter(entry["name"], _DTYPES[entry["dtype"]]) for entry in declared)


def check_bounds(cuda: str, entry: str, threads: int) -> None:
    """Check that the CUDA text bounds its blocks by `threads`, or raise CompileError."""
    bounds, _ = _definition(cuda, entry)
    _agree("threads of the launch bounds", [threads], [int(bounds.split(",")[0])])


def check_launch(
    ptx: str, entry: str, parameters: tuple[Parameter, ...], threads: int, dynamic_shared_bytes: int
) -> None:
    """Check that the PTX and what the DSL said agree, or raise CompileError with both sides.

    Compared are the bytes of each parameter, the threads of a block, and the use of dynamic shared memory.
    """
    sizes = _ptx_parameter_bytes(ptx, entry)
    expected = [PARAMETER_BYTES[p.type] for p in parameters]
    _agree("parameter bytes", expected, sizes)
    limit = re.search(r"^\.(?:maxntid|reqntid) ([\d, ]+)", ptx, re.MULTILINE)
    if limit:
        _agree("threads in PTX", [threads], [math.prod(int(n) for n in limit[1].split(","))])
    _agree("use of dynamic shared memory", [dynamic_shared_bytes > 0], [".extern .shared" in ptx])


def _agree(what: str, left: list[int], right: list[int]) -> None:
    if left != right:
        raise CompileError(
            f"{what}: the lowered module says {left}, the compiler emitted {right}; the installed DSL "
            "emits launches in a form that this version does not know, so install the pinned one."
        )


def _definition(cuda: str, entry: str) -> tuple[str, str]:
    found = [match for match in _KERNEL.finditer(cuda) if match[2] == entry]
    if len(found) != 1 or not found[0][1]:
        raise CompileError(
            f"the CUDA text defines {entry} {len(found)} times, once with launch bounds was expected; "
            "install the pinned TileLang."
        )
    return found[0][1], found[0][3]


def _split(part: str, entry: str) -> tuple[ParameterType, str]:
    qualified, _, name = part.replace("__restrict__", " ").replace("*", "* ").rpartition(" ")
    words = " ".join(word for word in qualified.split() if word not in ("const", "__grid_constant__"))
    if words.endswith("*"):
        return "pointer", name
    if words not in _CUDA_TYPES:
        advice = (
            'set "tl.disable_tma_lower": True in PASS_CONFIGS'
            if words == "CUtensorMap"
            else "pass a pointer or a scalar"
        )
        raise CompileError(f"the parameter {name!r} of {entry} has the type {words}; {advice}.")
    return _CUDA_TYPES[words], name


def _ptx_parameter_bytes(ptx: str, entry: str) -> list[int]:
    match = re.search(rf"\.entry {re.escape(entry)}\s*\(([^)]*)\)", ptx)
    if match is None:
        if re.search(rf"\.entry {re.escape(entry)}\b", ptx):
            return []
        raise CompileError(f"the PTX has no entry {entry}; install the pinned packages.")
    sizes = []
    for line in filter(None, (line.strip() for line in match[1].split(","))):
        parameter = re.match(r"\.param (?:\.align \d+ )?\.[a-z]+(\d+)\b.*?(?:\[(\d+)\])?$", line)
        if parameter is None:
            raise CompileError(
                f"the PTX parameter {line!r} is of an unknown form; install the pinned nvcc package."
            )
        sizes.append(_PTX_BYTES[parameter[1]] * int(parameter[2] or 1))
    return sizes
