"""Inputs of an FP8 block-scaled GEMM: what the fuzzer varies, what is always tested, how a case is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gen.check.case import Case, FuzzSize, Inputs, Knob, Relation
from gen.families.fp8_block_gemm.options import Layout, ScaleType
from gen.values import SplitWord, bounds

if TYPE_CHECKING:
    from gen.families.fp8_block_gemm.spec import Spec

RELATIONS = ("rerun", "other_splits", "last_rows", "permute_k_blocks")
"""Changes that may not change a result beyond rounding; `rerun` may not change a bit."""

ROW_SPREADS: tuple[Knob, ...] = ("random", "even", "some_empty", "first", "last")
"""How rows spread over groups: at random, alike, over a third of the groups, or all in one."""


def fuzz_sizes(spec: Spec) -> dict[str, FuzzSize]:
    """Sizes of a few tiles and blocks of k, up to a few rows in the last bucket."""
    last = spec.tile.buckets[-1]
    tops = [bucket.up_to for bucket in spec.tile.buckets if bucket.up_to]
    if spec.layout is Layout.GROUPED:
        return {
            "m": FuzzSize(4 * last.m, spec.tile.buckets[0].m),
            "n": FuzzSize(last.n + 8, last.n, unit=8),
            "k": FuzzSize(384, 128, unit=128),
        }
    return {
        "m": FuzzSize(max([*tops, 0]) + last.m + 1, spec.tile.buckets[0].m),
        "n": FuzzSize(2 * last.n + 8, last.n, unit=8),
        "k": FuzzSize(1024, 128, unit=128),
    }


def knobs(spec: Spec) -> dict[str, tuple[Knob, ...]]:
    """The kinds of inputs that a case chooses from; the first of each is the plain one."""
    kinds: dict[str, tuple[Knob, ...]] = {
        "values": ("normal", "exact", "extreme", "zero"),
        "stride": ("packed", "wide"),
    }
    return kinds | ({"rows": ROW_SPREADS} if spec.layout is Layout.GROUPED else {})


def must_test(spec: Spec) -> dict[str, Case]:
    """Cases of every bucket and edge, and one whole tile at the largest k."""
    plain: dict[str, Knob] = {name: kinds[0] for name, kinds in knobs(spec).items()} | {"seed": 1}
    low = {name: bounds(getattr(spec.shapes, name))[0] for name in ("m", "n", "k")}
    high = {name: bounds(getattr(spec.shapes, name))[1] for name in ("m", "n", "k")}

    def case(m: int, n: int, k: int, **changes: Knob) -> Case:
        wanted = {"m": m, "n": n, "k": k}
        sizes = {name: min(max(size, low[name]), high[name]) for name, size in wanted.items()}
        return Case(sizes, plain | changes)

    last = spec.tile.buckets[-1]
    cases = {
        "no_rows": case(0, last.n, 256),
        "one_row": case(1, last.n, 256),
        "narrow": case(3, 8, 384),
        "full_k": case(1, 8 if spec.layout is Layout.GROUPED else last.n, high["k"]),
        "wide_rows": case(5, last.n + 8, 256, stride="wide"),
        "exact": case(7, last.n + 8, 512, values="exact"),
        "extreme": case(9, last.n, 256, values="extreme"),
        "zeros": case(2, last.n, 256, values="zero"),
    }
    if spec.layout is Layout.GROUPED:
        rows, n = last.m + 3, spec.tile.buckets[0].n
        return cases | {
            str(spread): case(rows, n, 256, rows=spread, values="exact") for spread in ROW_SPREADS
        }
    first = 1
    for bucket in spec.tile.buckets:
        top = bucket.up_to or first + bucket.m
        cases[f"m{bucket.m}_first"] = case(first, bucket.n, 384)
        cases[f"m{bucket.m}_last"] = case(top, 2 * bucket.n + 8, 256, values="exact", stride="wide")
        first = top + 1
    return cases


def make_inputs(spec: Spec, case: Case) -> Inputs:
    """The tensors of a case; the same case always gives the same bytes.

    a e4m3 [m, k] or [m, groups, k] with the row stride of the knob `stride`, NaN bytes between rows; b e4m3
    [n, k] or [groups, n, k]; scales fp32, or ue8m0 as uint8.
    """
    generator = torch.Generator().manual_seed(int(case.knobs["seed"]))
    m, n, k = (case.sizes[name] for name in ("m", "n", "k"))
    groups, kind = spec.shapes.groups, str(case.knobs["values"])
    first = (groups,) if groups > 1 else ()
    middle = first if spec.layout is Layout.BATCHED else ()
    wide = case.knobs["stride"] == "wide"
    ue8m0 = spec.dtypes.scale is ScaleType.UE8M0
    tensors = {
        "a": _strided(_values(kind, (m, *middle, k), generator), 48 if wide else 0, 0x7F),
        "a_scale": _strided(_scales(kind, ue8m0, (m, *middle, k // 128), generator), 3 if wide else 0, 0xFF),
        "b": _values(kind, (*first, n, k), generator),
        "b_scale": _scales(kind, ue8m0, (*first, -(-n // 128), k // 128), generator),
    }
    if spec.layout is Layout.GROUPED:
        tensors["offsets"] = _offsets(str(case.knobs["rows"]), m, groups, generator)
    return Inputs(dict(case.sizes), tensors)


def _offsets(spread: str, m: int, groups: int, generator: torch.Generator) -> torch.Tensor:
    """int32 [groups + 1]: where the rows of each group begin, spread as one of `ROW_SPREADS` says."""
    if spread == "even":
        return (torch.arange(groups + 1) * m // groups).int()
    if spread in ("first", "last"):
        chosen = torch.full((m,), 0 if spread == "first" else groups - 1)
    else:
        step = 3 if spread == "some_empty" else 1
        chosen = torch.randint(0, -(-groups // step), (m,), generator=generator) * step
    counts = torch.bincount(chosen, minlength=groups)
    return torch.cat([torch.zeros(1), counts.cumsum(0)]).int()


def _values(kind: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """N(0, 1), {-1, 0, 1}, the extremes of e4m3, or zeros, in e4m3."""
    if kind == "extreme":
        edges = torch.tensor([0x7E, 0xFE, 0x01, 0x81, 0x00, 0x80, 0x08, 0x77], dtype=torch.uint8)
        return edges[torch.randint(0, 8, shape, generator=generator)].view(torch.float8_e4m3fn)
    if kind == "exact":
        return torch.randint(-1, 2, shape, generator=generator).to(torch.float8_e4m3fn)
    if kind == "zero":
        return torch.zeros(shape).to(torch.float8_e4m3fn)
    return torch.randn(shape, generator=generator).to(torch.float8_e4m3fn)


def _scales(kind: str, ue8m0: bool, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Scales around 1, powers of two from 1/2 to 2 for exact values, or far apart for extreme ones.

    The smallest is ue8m0's 2^-127, or an fp32 zero.
    """
    low, high = {"exact": (126, 129), "extreme": (87, 147)}.get(kind, (117, 130))
    exponents = torch.randint(low, high, shape, generator=generator)
    if kind == "extreme":
        exponents[torch.rand(shape, generator=generator) < 0.1] = 0
    if ue8m0:
        return exponents.to(torch.uint8)
    factors = torch.where(exponents > 0, torch.exp2(exponents.float() - 127), 0.0)
    if kind == "normal":
        factors *= 1 + torch.rand(shape, generator=generator)
    return factors


def _strided(tensor: torch.Tensor, gap: int, filler: int) -> torch.Tensor:
    """The tensor with `gap` elements of filler bytes after each row."""
    if not gap or not tensor.numel():
        return tensor
    rows = tensor.flatten(1)
    row_bytes = (rows.shape[1] + gap) * tensor.element_size()
    whole = torch.full((len(rows), row_bytes), filler, dtype=torch.uint8).view(tensor.dtype)
    part: torch.Tensor = whole[:, : rows.shape[1]]
    part[:] = rows
    return part.view(tensor.shape)


def related(spec: Spec, inputs: Inputs, relation: str, seed: int) -> Relation:
    """The inputs of one of `RELATIONS`."""
    tensors, sizes = inputs.tensors, inputs.sizes
    if relation == "other_splits" and spec.split is not SplitWord.NONE:
        return Relation(inputs, splits=1 + seed % 3)
    if relation == "last_rows":
        count = min(sizes["m"], 1)
        last = {name: tensors[name][sizes["m"] - count :] for name in ("a", "a_scale")}
        if "offsets" in tensors:
            last["offsets"] = (tensors["offsets"] - (sizes["m"] - count)).clamp(min=0)
        return Relation(inputs.with_tensors({"m": count}, **last), sizes["m"] - count)
    if relation == "permute_k_blocks":
        order = torch.randperm(sizes["k"] // 128, generator=torch.Generator().manual_seed(seed))
        columns = (order[:, None] * 128 + torch.arange(128)).flatten()
        bytes_ = {name: tensors[name].view(torch.uint8)[..., columns] for name in ("a", "b")}
        moved = {name: t.view(torch.float8_e4m3fn) for name, t in bytes_.items()}
        factors = {name: tensors[name][..., order] for name in ("a_scale", "b_scale")}
        return Relation(inputs.with_tensors({}, **moved, **factors))
    return Relation(inputs)
