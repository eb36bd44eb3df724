"""The Python call of an FP8 block-scaled GEMM: its arguments, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gen.check.case import Inputs
from gen.families.fp8_block_gemm.options import Layout, ScaleType
from gen.values import bounds

if TYPE_CHECKING:
    from gen.families.fp8_block_gemm.spec import Spec


def signature(spec: Spec) -> dict[str, str]:
    """The arguments in order, each with its type, shape and meaning."""
    groups = spec.shapes.groups
    middle = f"{groups}, " if spec.layout is Layout.BATCHED else ""
    first = f"{groups}, " if groups > 1 else ""
    scale = "uint8 (ue8m0)" if spec.dtypes.scale is ScaleType.UE8M0 else "float32"
    arguments = {
        "a": f"float8_e4m3fn [m, {middle}k], any row stride that is a multiple of 16: activations",
        "a_scale": f"{scale} [m, {middle}k / 128], any row stride: a scale for 128 of k",
        "b": f"float8_e4m3fn [{first}n, k], contiguous: weights",
        "b_scale": f"{scale} [{first}ceil(n / 128), k / 128], contiguous: a scale for 128 rows and 128 of k",
    }
    if spec.layout is Layout.GROUPED:
        arguments["offsets"] = (
            f"int32 [{groups + 1}], contiguous: the first row of each group, ascending from 0, then m"
        )
    return arguments


def bind(spec: Spec, given: dict[str, Any]) -> Inputs:
    """The inputs of a call. Raises TypeError or ValueError, naming the argument, where one does not fit."""
    names = list(signature(spec))
    if wrong := sorted(given.keys() ^ set(names)):
        raise TypeError(f"{spec.name} takes {', '.join(names)}; wrong or missing: {', '.join(wrong)}")
    scale = torch.uint8 if spec.dtypes.scale is ScaleType.UE8M0 else torch.float32
    types = {"a": torch.float8_e4m3fn, "a_scale": scale, "b": torch.float8_e4m3fn, "b_scale": scale}
    if spec.layout is Layout.GROUPED:
        types["offsets"] = torch.int32
    for name, dtype in types.items():
        value = given[name]
        if scale == torch.uint8 and isinstance(value, torch.Tensor) and value.dtype == torch.float8_e8m0fnu:
            given[name] = value = value.view(torch.uint8)
        if not isinstance(value, torch.Tensor) or value.dtype != dtype:
            raise TypeError(f"{name}: a {dtype} tensor is needed")
    first = (spec.shapes.groups,) if spec.shapes.groups > 1 else ()
    middle = first if spec.layout is Layout.BATCHED else ()
    a, b = given["a"], given["b"]
    ranks = 2 + len(middle), 2 + len(first)
    if (a.dim(), b.dim()) != ranks:
        needed = ranks[0] if len(set(ranks)) == 1 else f"{ranks[0]} and {ranks[1]}"
        raise ValueError(f"a and b: {needed} dimensions are needed, not {a.dim()} and {b.dim()}")
    m, n, k = a.shape[0], b.shape[-2], b.shape[-1]
    sizes = {"m": m, "n": n, "k": k}
    for name, step in (("m", 1), ("n", 8), ("k", 128)):
        low, high = bounds(getattr(spec.shapes, name))
        if not low <= sizes[name] <= high or sizes[name] % step:
            multiple = f", a multiple of {step}" if step > 1 else ""
            raise ValueError(f"{name} is {sizes[name]}; the spec takes {low} to {high}{multiple}")
    shapes = {
        "a": (m, *middle, k),
        "a_scale": (m, *middle, k // 128),
        "b": (*first, n, k),
        "b_scale": (*first, -(-n // 128), k // 128),
        "offsets": (spec.shapes.groups + 1,),
    }
    for name, shape in ((name, shapes[name]) for name in names):
        tensor = given[name]
        if tuple(tensor.shape) != shape:
            raise ValueError(f"{name}: the shape must be {list(shape)}, not {list(tensor.shape)}")
        if tensor.device != a.device:
            raise ValueError(f"{name}: it is on {tensor.device}, and a on {a.device}")
        inner = tensor if name not in ("a", "a_scale") else tensor[:1]
        if tensor.numel() and not inner.is_contiguous():
            raise ValueError(f"{name}: only the stride of its rows may be other than packed")
    for name in ("a", "b"):
        tensor = given[name]
        if tensor.data_ptr() % 16 or (m > 1 and tensor.stride(0) % 16):
            raise ValueError(f"{name}: its rows must start at multiples of 16 bytes")
    if "offsets" in types and a.device.type == "cpu":
        ends = given["offsets"].tolist()
        if ends[0] != 0 or ends[-1] != m or ends != sorted(ends):
            raise ValueError(f"offsets: they must ascend from 0 to m, {m}")
    return Inputs(sizes, {name: given[name] for name in names})
