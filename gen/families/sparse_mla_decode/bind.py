"""The Python call of sparse-MLA decode: arguments checked and turned into inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from gen.check.case import Inputs, Tensors
from gen.families.sparse_mla_decode.options import Sink
from gen.families.sparse_mla_decode.plan import caches
from gen.values import bounds

if TYPE_CHECKING:
    from gen.families.sparse_mla_decode.spec import Spec
    from gen.spec import KernelSpec


def signature(spec: Spec) -> dict[str, str]:
    """The call's arguments in order, each with its type, shape and meaning."""
    heads, d_qk, token_bytes = spec.shapes.heads, spec.layout.d_qk, spec.layout.token_bytes
    known = {"q": f"bfloat16 [tokens, {heads}, {d_qk}]: queries"}
    for name in caches(spec):
        known[f"{name}_cache"] = (
            f"uint8 [pages, page, {token_bytes}], [pages, page, 1, {token_bytes}] or [pages, bytes], "
            "any page stride that is a multiple of 8: paged keys"
        )
        known[f"{name}_indices"] = "int32 [tokens, width]: page * page size + slot of each key, -1 for none"
        if spec.features.lengths:
            known[f"{name}_lengths"] = "int32 [tokens]: how many columns count"
    if spec.features.sink is not Sink.NONE:
        known["sink"] = f"float32 [{heads}]: a logit a head"
    known["softmax_scale"] = f"number: by default {d_qk}**-0.5"
    for name in caches(spec):
        known[f"{name}_page"] = "integer: keys in a page, where the cache's shape does not say"
    return known


def bind(spec: Spec, arguments: Mapping[str, object]) -> Inputs:
    """The inputs of a call. Raises TypeError or ValueError that name the argument and what would do."""
    given = dict(arguments)
    scale = given.pop("softmax_scale", None)
    pages = {name: given.pop(f"{name}_page", None) for name in caches(spec)}
    optional = ("softmax_scale", *(f"{name}_page" for name in caches(spec)))
    required = [name for name in signature(spec) if name not in optional]
    missing = [name for name in required if given.get(name) is None]
    if missing:
        raise TypeError(f"{spec.name} needs {', '.join(missing)}")
    unknown = given.keys() - set(required)
    if unknown:
        raise TypeError(f"{spec.name} takes no {', '.join(sorted(unknown))}; it takes {', '.join(required)}")

    tensors: Tensors = {}
    for name, value in given.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name}: a tensor is needed, not {type(value).__name__}")
        tensors[name] = value
    device = tensors["q"].device
    for name, tensor in tensors.items():
        if tensor.device != device:
            raise ValueError(f"{name}: it is on {tensor.device}, q on {device}; move one of them")

    q = tensors["q"]
    sizes = {"tokens": q.shape[0] if q.dim() else 0}
    _require(spec, tensors, "q", torch.bfloat16, (sizes["tokens"], spec.shapes.heads, spec.layout.d_qk))
    if "sink" in tensors:
        _require(spec, tensors, "sink", torch.float32, (spec.shapes.heads,))
    for name in caches(spec):
        tensors[f"{name}_cache"], sizes[f"{name}_page"] = _paged(spec, name, tensors, pages[name])
        indices = tensors[f"{name}_indices"]
        sizes[f"{name}_width"] = indices.shape[1] if indices.dim() == 2 else 0
        shape = (sizes["tokens"], sizes[f"{name}_width"])
        _require(spec, tensors, f"{name}_indices", torch.int32, shape)
        if spec.features.lengths:
            _require(spec, tensors, f"{name}_lengths", torch.int32, shape[:1])
    for size, value in sizes.items():
        low, high = bounds(getattr(spec.shapes, size))
        if not low <= value <= high:
            raise ValueError(f"{size}: {value} is outside what {spec.path} allows, {low} to {high}")
    if scale is None:
        scale = spec.layout.d_qk**-0.5
    if not isinstance(scale, int | float):
        raise TypeError(f"softmax_scale: a number is needed, not {type(scale).__name__}")
    return Inputs(sizes, tensors, float(scale))


def _require(
    spec: KernelSpec, tensors: Tensors, name: str, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    tensor = tensors[name]
    if tensor.dtype != dtype:
        raise TypeError(f"{name}: {spec.name} needs {dtype}, not {tensor.dtype}")
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name}: its shape is {list(tensor.shape)}, not {list(shape)}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name}: it is not contiguous; pass {name}.contiguous()")


def _paged(spec: Spec, name: str, tensors: Tensors, page: object) -> tuple[torch.Tensor, int]:
    """A cache as uint8 [pages, used bytes] with its page stride, and the keys in a page."""
    cache, layout = tensors[f"{name}_cache"], spec.layout
    label = f"{name}_cache"
    if cache.dtype != torch.uint8:
        raise TypeError(
            f"{label}: bytes (uint8) are needed, not {cache.dtype}; pass {label}.view(torch.uint8)"
        )
    if cache.dim() == 4 and cache.shape[2] == 1:
        cache = cache[:, :, 0]
    fixed = getattr(spec.shapes, f"{name}_page")
    if cache.dim() == 3:
        if cache.shape[2] != layout.token_bytes:
            raise ValueError(f"{label}: a token has {layout.token_bytes} bytes, not {cache.shape[2]}")
        if cache.stride()[1:] != (layout.token_bytes, 1):
            raise ValueError(f"{label}: the bytes of a page are not contiguous")
        if page not in (None, cache.shape[1]):
            raise ValueError(f"{name}_page: it is {page}, but {label} has pages of {cache.shape[1]}")
        page, cache = cache.shape[1], cache.flatten(1) if cache.is_contiguous() else _flat_pages(cache)
    elif cache.dim() != 2:
        raise ValueError(
            f"{label}: its shape is {list(cache.shape)}; see the signature for those it may have"
        )
    elif cache.shape[1] and cache.stride(1) != 1:
        raise ValueError(f"{label}: the bytes of a page are not contiguous")
    page = fixed if page is None and isinstance(fixed, int) else page
    if not isinstance(page, int) or page < 1:
        raise TypeError(f"{name}_page: keys in a page, a positive integer, are needed; {label} does not say")
    used = page * layout.token_bytes
    if cache.shape[1] < used:
        raise ValueError(f"{label}: a page of {page} keys takes {used} bytes, but it has {cache.shape[1]}")
    if cache.stride(0) % 8 or cache.data_ptr() % 8:
        raise ValueError(
            f"{label}: pages must start at multiples of 8 bytes, but the stride is {cache.stride(0)}"
        )
    return cache[:, :used], page


def _flat_pages(cache: torch.Tensor) -> torch.Tensor:
    """[pages, page, bytes] with any page stride as [pages, page * bytes], the same memory."""
    pages, page, size = cache.shape
    return cache.as_strided((pages, page * size), (cache.stride(0), 1), cache.storage_offset())
