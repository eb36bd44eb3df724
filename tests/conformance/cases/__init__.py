"""All conformance cases, by group."""

from __future__ import annotations

from tests.conformance.case import Case
from tests.conformance.cases import (
    approximate,
    asynchronous,
    atomic,
    bits,
    compare,
    control,
    conversion,
    floats,
    halves,
    integer,
    matrix,
    memory,
    tensor,
    warp,
)

GROUPS: dict[str, list[Case]] = {
    "integer": integer.cases(),
    "bits": bits.cases(),
    "compare": compare.cases(),
    "float": floats.cases(),
    "half": halves.cases(),
    "conversion": conversion.cases(),
    "approximate": approximate.cases(),
    "memory": memory.cases(),
    "atomic": atomic.cases(),
    "warp": warp.cases(),
    "matrix": matrix.cases(),
    "asynchronous": asynchronous.cases(),
    "tensor": tensor.cases(),
    "control": control.cases(),
}
