"""What `kgen bench` measures of an FP8 block-scaled GEMM, and an engine-like Triton kernel beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch

from gen.check.case import Inputs, Tensors
from gen.families.fp8_block_gemm.options import Layout, ScaleType
from gen.families.fp8_block_gemm.plan import K_BLOCK, OUT_TYPES
from gen.values import bounds

if TYPE_CHECKING:
    from gen.families.fp8_block_gemm.spec import Spec

ROWS = (1, 4, 16, 64, 4096)
PROJECTIONS = ((1536, 4096), (32768, 1024), (4096, 8192), (4096, 4096), (4096, 2048), (8192, 1024))
"""n and k of DeepSeek-V4-Flash's projections at tensor parallel 1."""


def bench_sizes(spec: Spec) -> list[dict[str, int]]:
    """The rows of decode and prefill at every projection within the spec's ranges, or at its largest."""
    (low_n, high_n), (low_k, high_k) = bounds(spec.shapes.n), bounds(spec.shapes.k)
    known = [(n, k) for n, k in PROJECTIONS if low_n <= n <= high_n and low_k <= k <= high_k]
    return [{"m": m, "n": n, "k": k} for n, k in known or [(high_n, high_k)] for m in ROWS]


def bench_bytes(spec: Spec, sizes: Mapping[str, int]) -> int:
    """Bytes of a, b, their scales and out; the b of a grouped layout's groups that have rows."""
    m, n, k, groups = sizes["m"], sizes["n"], sizes["k"], spec.shapes.groups
    grouped = spec.layout is Layout.GROUPED
    row_sets, weights = (1, min(m, groups)) if grouped else (groups, groups)
    scale = 1 if spec.dtypes.scale is ScaleType.UE8M0 else 4
    rows = m * (k + scale * (k // K_BLOCK) + n * OUT_TYPES[spec.dtypes.out][1])
    return row_sets * rows + weights * (n * k + scale * (k // K_BLOCK) * -(-n // 128))


def bench_inputs(spec: Spec, sizes: Mapping[str, int], count: int) -> list[Inputs]:
    """Random finite e4m3 and scales around 1, on the card, `count` times."""
    return [_inputs(spec, sizes, seed) for seed in range(count)]


def _inputs(spec: Spec, sizes: Mapping[str, int], seed: int) -> Inputs:
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    groups = spec.shapes.groups
    first = (groups,) if groups > 1 else ()
    middle = first if spec.layout is Layout.BATCHED else ()
    generator = torch.Generator("cuda").manual_seed(seed)

    def draw(low: int, high: int, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.randint(low, high, shape, dtype=torch.uint8, device="cuda", generator=generator)

    def values(shape: tuple[int, ...]) -> torch.Tensor:
        signs = draw(0, 2, shape) << 7
        return (draw(0, 0x60, shape) | signs).view(torch.float8_e4m3fn)

    def scales(shape: tuple[int, ...]) -> torch.Tensor:
        exponents = draw(120, 130, shape)
        return exponents if spec.dtypes.scale is ScaleType.UE8M0 else torch.exp2(exponents.float() - 127)

    tensors = {
        "a": values((m, *middle, k)),
        "a_scale": scales((m, *middle, k // K_BLOCK)),
        "b": values((*first, n, k)),
        "b_scale": scales((*first, -(-n // 128), k // K_BLOCK)),
    }
    if spec.layout is Layout.GROUPED:
        starts = torch.arange(groups + 1, device="cuda") * m / groups
        tensors["offsets"] = starts.ceil().int()
    return Inputs(dict(sizes), tensors)


def baseline(spec: Spec, inputs: Inputs, outputs: Tensors) -> Callable[[], object]:
    """One launch of the engines' structure: 64×128 tiles, each 128 of k scaled in fp32, no split."""
    from gen.families.fp8_block_gemm.triton_baseline import launch

    return launch(inputs.tensors, outputs["out"])
