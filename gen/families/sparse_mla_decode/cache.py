"""The cache bytes of both layouts: packing, and reading them back as the kernel does.

Facts: FlashMLA `tests/quant.py` and `csrc/api/sparse_decode.h`. A cache is uint8 [pages, page_stride]; the
first `page * token_bytes` bytes of a page hold `page` tokens, the rest is padding.
"""

from __future__ import annotations

import torch

from gen.families.sparse_mla_decode.options import Layout


def slot_views(
    layout: Layout, cache: torch.Tensor, page: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Byte views of a cache: rows, scales and the padding of scales, each [pages, page, bytes]."""
    row = layout.row_bytes
    if layout is Layout.V32:
        records = cache[:, : page * row].unflatten(1, (page, row))
        values = records
        return values, records[:, :, 512:528], records[:, :, :0]
    rows = cache[:, : page * row].unflatten(1, (page, row))
    footer = cache[:, page * row : page * layout.token_bytes].unflatten(1, (page, 8))
    return rows, footer[:, :, :7], footer[:, :, 7:]


def quantize(layout: Layout, keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """fp32 keys [n, d_qk] as (e4m3 bytes [n, d_nope], scale bytes [n, …], bf16 RoPE bytes [n, 128]).

    FlashMLA's rule: s = 2^ceil(log2(max(amax / 448, 1e-4))) for `v4`; `v32` takes amax / 448 itself, since
    some engines store scales that are no powers of two.
    """
    nope = keys[:, : layout.d_nope].unflatten(1, (layout.scales, layout.scale_group))
    scale = (nope.abs().amax(-1) / 448).clamp(min=1e-4)
    if layout is Layout.V4:
        exponent = torch.ceil(torch.log2(scale))
        scale = torch.exp2(exponent)
        scale_bytes = (exponent + 127).to(torch.uint8)
    else:
        scale_bytes = scale.contiguous().view(torch.uint8)
    values = (nope / scale[..., None]).to(torch.float8_e4m3fn).flatten(1).view(torch.uint8)
    rope = keys[:, layout.d_nope :].to(torch.bfloat16).contiguous().view(torch.uint8)
    return values, scale_bytes, rope


def store(
    layout: Layout,
    cache: torch.Tensor,
    page: int,
    slots: torch.Tensor,
    parts: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    """Write quantized keys into the slots (int64 [n]) of a cache, in place."""
    rows, scales, _ = slot_views(layout, cache, page)
    values, scale_bytes, rope = parts
    where = (slots // page, slots % page)
    rope_byte = layout.row_bytes - 2 * layout.d_rope
    rows[(*where, slice(0, layout.d_nope))] = values
    rows[(*where, slice(rope_byte, layout.row_bytes))] = rope
    scales[where] = scale_bytes


def gather(layout: Layout, cache: torch.Tensor, page: int, slots: torch.Tensor) -> torch.Tensor:
    """Keys of the slots (int64 [...]) as fp64 [..., d_qk], rounded to bf16 as the kernel rounds them.

    The value of a ue8m0 byte b is 2^(b - 127); NaN bytes give NaN.
    """
    rows, scales, _ = slot_views(layout, cache, page)
    where = (slots // page, slots % page)
    row, scale_bytes = rows[where], scales[where].contiguous()
    if layout is Layout.V4:
        scale = torch.exp2(scale_bytes.double() - 127)
    else:
        scale = scale_bytes.view(torch.float32).double()
    nope = row[..., : layout.d_nope].contiguous().view(torch.float8_e4m3fn).double()
    nope = (nope.unflatten(-1, (layout.scales, -1)) * scale[..., None]).flatten(-2)
    rope = row[..., layout.row_bytes - 2 * layout.d_rope :].contiguous().view(torch.bfloat16).double()
    return torch.cat([nope.float().to(torch.bfloat16).double(), rope], -1)
