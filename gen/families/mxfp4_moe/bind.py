"""The Python call of an MXFP4 mixture of experts: its arguments, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gen.check.case import Inputs
from gen.values import bounds

if TYPE_CHECKING:
    from gen.families.mxfp4_moe.spec import Spec

_BYTES = ("w13", "w13_scale", "w2", "w2_scale")
_ALIGNMENT = {"hidden_states": 16, "w13": 16, "w2": 16, "w13_scale": 4, "w2_scale": 4}


def signature(spec: Spec) -> dict[str, str]:
    """The arguments in order, each with its type, shape and meaning; all are contiguous."""
    order = {
        "gate_up": "gate's rows, then up's",
        "up_gate": "up's rows, then gate's",
        "interleaved": "gate's and up's rows in turn",
    }[str(spec.layout)]
    given = {
        "hidden_states": "bfloat16 [tokens, hidden]: activations",
        "w13": f"uint8 [experts, 2 · intermediate, hidden / 2]: e2m1, the even k in the low half; {order}",
        "w13_scale": "uint8 (ue8m0) [experts, 2 · intermediate, hidden / 32]",
        "w13_bias": "bfloat16 [experts, 2 · intermediate]",
        "w2": "uint8 [experts, hidden, intermediate / 2]: e2m1, the even k in the low half",
        "w2_scale": "uint8 (ue8m0) [experts, hidden, intermediate / 32]",
        "w2_bias": "bfloat16 [experts, hidden]",
        "topk_ids": f"int32 [tokens, {spec.shapes.topk}]: experts of each token, -1 for one of another card",
        "topk_weights": f"float32 [tokens, {spec.shapes.topk}]: their weights",
    }
    return {name: text for name, text in given.items() if spec.features.bias or "bias" not in name}


def bind(spec: Spec, given: dict[str, Any]) -> Inputs:
    """The inputs of a call. Raises TypeError or ValueError, naming the argument, where one does not fit."""
    names = list(signature(spec))
    if wrong := sorted(given.keys() ^ set(names)):
        raise TypeError(f"{spec.name} takes {', '.join(names)}; wrong or missing: {', '.join(wrong)}")
    given = {name: _as_bytes(value) if name in _BYTES else value for name, value in given.items()}
    for name in names:
        dtype = _dtype(name)
        if not isinstance(given[name], torch.Tensor) or given[name].dtype != dtype:
            raise TypeError(f"{name}: a {dtype} tensor is needed")
    ranks = {"hidden_states": 2, "w13": 3}
    for name, rank in ranks.items():
        if given[name].dim() != rank:
            raise ValueError(f"{name}: {rank} dimensions are needed, not {given[name].dim()}")
    tokens, hidden = given["hidden_states"].shape
    experts, gate_and_up, _ = given["w13"].shape
    sizes = {"tokens": tokens, "hidden": hidden, "intermediate": gate_and_up // 2, "experts": experts}
    for name, size in sizes.items():
        low, high = bounds(getattr(spec.shapes, name))
        step = 128 if name in ("hidden", "intermediate") else 1
        if not low <= size <= high or size % step:
            multiple = f", a multiple of {step}" if step > 1 else ""
            raise ValueError(f"{name} is {size}; the spec takes {low} to {high}{multiple}")
    for name, shape in shapes(spec, sizes).items():
        tensor = given[name]
        if tuple(tensor.shape) != shape:
            raise ValueError(f"{name}: the shape must be {list(shape)}, not {list(tensor.shape)}")
        if tensor.device != given["hidden_states"].device:
            where = given["hidden_states"].device
            raise ValueError(f"{name}: it is on {tensor.device}, and hidden_states on {where}")
        if not tensor.is_contiguous():
            raise ValueError(f"{name}: it must be contiguous")
        if tensor.data_ptr() % _ALIGNMENT.get(name, 1):
            raise ValueError(f"{name}: it must start at a multiple of {_ALIGNMENT[name]} bytes")
    return Inputs(sizes, {name: given[name] for name in names})


def shapes(spec: Spec, sizes: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """The shape of every argument."""
    tokens, hidden, intermediate, experts = (
        sizes[name] for name in ("tokens", "hidden", "intermediate", "experts")
    )
    known = {
        "hidden_states": (tokens, hidden),
        "w13": (experts, 2 * intermediate, hidden // 2),
        "w13_scale": (experts, 2 * intermediate, hidden // 32),
        "w13_bias": (experts, 2 * intermediate),
        "w2": (experts, hidden, intermediate // 2),
        "w2_scale": (experts, hidden, intermediate // 32),
        "w2_bias": (experts, hidden),
        "topk_ids": (tokens, spec.shapes.topk),
        "topk_weights": (tokens, spec.shapes.topk),
    }
    return {name: known[name] for name in signature(spec)}


def _dtype(name: str) -> torch.dtype:
    if name in _BYTES:
        return torch.uint8
    return {"topk_ids": torch.int32, "topk_weights": torch.float32}.get(name, torch.bfloat16)


def _as_bytes(value: Any) -> Any:
    """uint8 views of the other one-byte types in which packed e2m1 and ue8m0 come."""
    others = (torch.int8, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2)
    return value.view(torch.uint8) if isinstance(value, torch.Tensor) and value.dtype in others else value
