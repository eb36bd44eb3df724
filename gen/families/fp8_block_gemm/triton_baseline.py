"""A Triton kernel of the structure that engines use for block-scaled FP8: one tile a block, k in order."""

# Triton evaluates annotations, so that its kernel has none but those it knows.
# ruff: noqa: ANN001, ANN202
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import triton
import triton.language as tl

TILE_M, TILE_N, GROUP = 64, 128, 32  # the engines' default tile, and row tiles that share weights in L2


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _gemm(
    a, a_scale, b, b_scale, out, m, n, k, a_stride, out_stride,
    tile_m: tl.constexpr, tile_n: tl.constexpr, group: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(m, tile_m), tl.cdiv(n, tile_n)
    tile = tl.program_id(0)
    first = tile // (group * tiles_n) * group
    height = tl.minimum(tiles_m - first, group)
    i = first + tile % (group * tiles_n) % height
    j = tile % (group * tiles_n) // height
    rows = (i * tile_m + tl.arange(0, tile_m)) % m
    columns = (j * tile_n + tl.arange(0, tile_n)) % n
    ks = tl.arange(0, 128)
    a += rows[:, None] * a_stride + ks[None, :]
    b += columns[None, :] * k + ks[:, None]
    blocks = k // 128
    acc = tl.zeros((tile_m, tile_n), tl.float32)
    for block in range(blocks):
        row_scale = tl.load(a_scale + rows * blocks + block)
        column_scale = tl.load(b_scale + columns // 128 * blocks + block)
        acc += tl.dot(tl.load(a), tl.load(b)) * row_scale[:, None] * column_scale[None, :]
        a += 128
        b += 128
    rows = i * tile_m + tl.arange(0, tile_m)
    columns = j * tile_n + tl.arange(0, tile_n)
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(out + rows[:, None] * out_stride + columns[None, :], acc.to(out.dtype.element_ty), mask)


def launch(tensors: Mapping[str, torch.Tensor], out: torch.Tensor) -> Callable[[], object]:
    """A call on a [m, k], b [n, k], fp32 scales and out [m, n]; ue8m0 scales are widened first."""
    a, b = tensors["a"], tensors["b"]
    scales = [tensors["a_scale"], tensors["b_scale"]]
    if scales[0].dtype == torch.uint8:
        scales = [torch.exp2(scale.float() - 127) for scale in scales]
    (m, k), n = a.shape, b.shape[0]
    grid = (triton.cdiv(m, TILE_M) * triton.cdiv(n, TILE_N),)
    sizes = (m, n, k, a.stride(0), out.stride(0), TILE_M, TILE_N, GROUP)
    return lambda: _gemm[grid](a, scales[0], b, scales[1], out, *sizes, num_warps=4, num_stages=3)
