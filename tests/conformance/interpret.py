"""Runs a case in the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

from gen.ptx import Module, TensorMap
from tests.conformance.case import Array, Case, Map, module_text

_DTYPES = {
    **{
        "u8": np.uint8,
        "u16": np.uint16,
        "u32": np.uint32,
        "s32": np.int32,
        "u64": np.uint64,
        "s64": np.int64,
    },
    **{"f16": np.float16, "f32": np.float32, "f64": np.float64},
}


def run(case: Case, arrays: list[Array] | None = None) -> Array:
    """The output of a case, of its own inputs or of others like them."""
    given, out = case.arrays() if arrays is None else arrays, case.start()
    maps = [_tensor_map(m, out if m.of < 0 else given[m.of]) for m in case.maps]
    kernel = Module(module_text([case], "sm_90a"))[case.entry]
    kernel.launch((case.blocks,), (case.threads,), [*given, out, *maps])
    return out


def _tensor_map(m: Map, array: Array) -> TensorMap:
    whole: Any = array.reshape(-1)
    if m.kind == "bf16":
        import torch

        whole = torch.from_numpy(whole.view(np.int16)).view(torch.bfloat16)
    else:
        whole = whole.view(_DTYPES[m.kind])
    view = whole[: int(np.prod(m.shape))].reshape(m.shape)
    return TensorMap(view, box=m.box, element_strides=m.element_strides, swizzle=m.swizzle, fill=m.fill)
