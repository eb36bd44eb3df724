"""Inputs of an MXFP4 mixture of experts: what the fuzzer varies, what is always run, how a case is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gen.check.case import Case, FuzzSize, Inputs, Knob, Relation
from gen.families.mxfp4_moe.bind import shapes
from gen.families.mxfp4_moe.reference import gate_and_up
from gen.values import bounds

if TYPE_CHECKING:
    from gen.families.mxfp4_moe.spec import Spec

RELATIONS = ("rerun", "last_rows", "permute_experts", "permute_slots")
"""Changes that may not change a result beyond rounding; `rerun` may not change a bit."""

FEW_PAIRS = 100
"""Pairs with an expert in a case of many tokens, so that the interpreter takes a second or two."""


def fuzz_sizes(spec: Spec) -> dict[str, FuzzSize]:
    """Sizes of a few tiles and blocks of k, and tokens up to the second bucket."""
    first = spec.tile.buckets[0]
    return {
        "tokens": FuzzSize(min(first.up_to or 64, 64) + 1, first.m),
        "hidden": FuzzSize(384, 128, unit=128),
        "intermediate": FuzzSize(384, 128, unit=128),
        "experts": FuzzSize(9),
    }


def knobs(spec: Spec) -> dict[str, tuple[Knob, ...]]:
    """The kinds of inputs that a case chooses from; the first of each is the plain one.

    Exact cases need a limit, at which gate is then constant.
    """
    exact = () if spec.features.limit is None else ("exact",)
    return {
        "values": ("normal", *exact, "extreme", "zero"),
        "routing": ("random", "one_expert", "repeated", "filtered", "elsewhere"),
    }


def must_test(spec: Spec) -> dict[str, Case]:
    """Cases of every bucket and edge, and one whole tile at the largest k of either product."""
    plain: dict[str, Knob] = {name: kinds[0] for name, kinds in knobs(spec).items()} | {"seed": 1}
    names = ("tokens", "hidden", "intermediate", "experts")
    low, high = ({name: bounds(getattr(spec.shapes, name))[end] for name in names} for end in (0, 1))

    def case(tokens: int, hidden: int, intermediate: int, experts: int, **changes: Knob) -> Case:
        wanted = dict(zip(names, (tokens, hidden, intermediate, experts), strict=True))
        sizes = {name: min(max(size, low[name]), high[name]) for name, size in wanted.items()}
        return Case(sizes, plain | changes)

    exact = "exact" if "exact" in knobs(spec)["values"] else "normal"
    cases = {
        "no_tokens": case(0, 128, 128, 2),
        "one_token": case(1, 256, 128, 8),
        "full_hidden": case(1, high["hidden"], 128, 4),
        "full_intermediate": case(1, 128, high["intermediate"], 4),
        "one_expert_of_one": case(3, 128, 128, 1),
        "all_on_one_expert": case(5, 256, 256, 7, routing="one_expert"),
        "repeated_expert": case(4, 256, 128, 5, routing="repeated", values=exact),
        "filtered": case(9, 128, 256, 6, routing="filtered"),
        "all_elsewhere": case(3, 128, 128, 4, routing="elsewhere"),
        "exact": case(4, 384, 256, 8, values=exact),
        "extreme": case(4, 256, 256, 8, values="extreme"),
        "zeros": case(2, 128, 128, 8, values="zero"),
        "every_expert": case(2, 128, 128, high["experts"]),
    }
    first = 1
    for bucket in spec.tile.buckets:
        top = bucket.up_to or first + 1
        cases[f"m{bucket.m}_first"] = case(first, 256, 128, 3, values=exact, routing="few")
        cases[f"m{bucket.m}_last"] = case(top, 128, 256, 5, routing="few")
        first = top + 1
    return cases


def make_inputs(spec: Spec, case: Case) -> Inputs:
    """The tensors of a case, as `bind.signature` lists them; the same case always gives the same bytes.

    What no pair uses is NaN: scales and biases of experts without pairs, and weights of pairs without expert.
    """
    generator = torch.Generator().manual_seed(int(case.knobs["seed"]))
    kind, sizes = str(case.knobs["values"]), dict(case.sizes)
    wanted = shapes(spec, sizes)
    ids = _routing(str(case.knobs["routing"]), wanted["topk_ids"], sizes["experts"], generator)
    tensors = {"hidden_states": _activations(kind, wanted["hidden_states"], generator)}
    for name in ("w13", "w2"):
        tensors[name] = _weights(kind, wanted[name], generator)
        tensors[f"{name}_scale"] = _scales(kind, wanted[f"{name}_scale"], generator)
        if spec.features.bias:
            tensors[f"{name}_bias"] = _biases(kind, wanted[f"{name}_bias"], generator)
    if kind == "exact":
        for expert in range(sizes["experts"]):
            gate, up = gate_and_up(spec, tensors["w13"][expert])
            gate &= 0x77  # gate's weights are 1/2 or more, so that gate is past its limit
            gate |= 0x11
            up[torch.rand(up.shape, generator=generator) < 0.95] = 0
    unused = torch.ones(sizes["experts"], dtype=torch.bool)
    unused[ids[ids >= 0].unique().long()] = False
    for name, filler in (("scale", 255), ("bias", torch.nan)):
        for tensor in (tensors[key] for key in tensors if key.endswith(name)):
            tensor[unused] = filler
    weights = torch.exp2(torch.randint(-1, 2, ids.shape, generator=generator).float())
    if kind not in ("exact", "zero"):
        weights *= 1 + torch.rand(ids.shape, generator=generator)
    weights[ids < 0] = torch.nan
    tensors |= {"topk_ids": ids.int(), "topk_weights": weights}
    return Inputs(sizes, {name: tensors[name] for name in wanted})


def _routing(kind: str, shape: tuple[int, ...], experts: int, generator: torch.Generator) -> torch.Tensor:
    """Ids [tokens, topk]: different experts of a token where there are enough, or as the kind says."""
    tokens, topk = shape
    if kind == "elsewhere":
        return torch.full(shape, -1)
    if kind == "one_expert":
        return torch.full(shape, experts - 1)
    ids = torch.rand(tokens, max(experts, topk), generator=generator).argsort(-1)[:, :topk] % experts
    if kind == "repeated":
        ids[:] = ids[:, :1]
    if kind == "filtered":
        ids[torch.rand(shape, generator=generator) < 0.5] = -1
    if kind == "few" and ids.numel() > FEW_PAIRS:
        others = torch.randperm(ids.numel(), generator=generator)[FEW_PAIRS:]
        ids.view(-1)[others] = -1
    return ids


def _activations(kind: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """N(0, 1), {1, 2}, far apart, or zeros, in bf16."""
    if kind == "exact":
        return torch.randint(1, 3, shape, generator=generator).bfloat16()
    if kind == "zero":
        return torch.zeros(shape).bfloat16()
    values = torch.randn(shape, generator=generator)
    if kind == "extreme":
        values *= torch.exp2(torch.randint(-130, 12, shape, generator=generator).float())
    return values.bfloat16()


def _weights(kind: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Any codes, ±{0, 1/2, 1, 3/2} for exact values, or zeros."""
    if kind == "zero":
        return torch.zeros(shape, dtype=torch.uint8)
    bytes_ = torch.randint(0, 256, shape, generator=generator).byte()
    return bytes_ & 0xBB if kind == "exact" else bytes_


def _scales(kind: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Powers of two around 2^-5, from 1/2 to 2 for exact values, or far apart for extreme ones.

    The smallest is ue8m0's 2^-127.
    """
    low, high = {"exact": (126, 129), "extreme": (90, 140)}.get(kind, (119, 125))
    exponents = torch.randint(low, high, shape, generator=generator).byte()
    if kind == "extreme":
        exponents[torch.rand(shape, generator=generator) < 0.1] = 0
    return exponents


def _biases(kind: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """N(0, 1), {-1, 0, 1}, or zeros, in bf16."""
    if kind == "exact":
        return torch.randint(-1, 2, shape, generator=generator).bfloat16()
    return (torch.randn(shape, generator=generator) * (kind != "zero")).bfloat16()


def related(spec: Spec, inputs: Inputs, relation: str, seed: int) -> Relation:
    """The inputs of one of `RELATIONS`."""
    tensors, sizes = inputs.tensors, inputs.sizes
    generator = torch.Generator().manual_seed(seed)
    if relation == "last_rows":
        count = min(sizes["tokens"], 1)
        first = sizes["tokens"] - count
        last = {name: tensors[name][first:] for name in ("hidden_states", "topk_ids", "topk_weights")}
        return Relation(inputs.with_tensors({"tokens": count}, **last), first)
    if relation == "permute_experts":
        order = torch.randperm(sizes["experts"], generator=generator)
        ids = tensors["topk_ids"]
        moved = {name: tensor[order] for name, tensor in tensors.items() if name.startswith("w")}
        moved["topk_ids"] = torch.where(ids < 0, ids, order.argsort().int()[ids.long().clamp(min=0)])
        return Relation(inputs.with_tensors({}, **moved))
    if relation == "permute_slots":
        order = torch.randperm(spec.shapes.topk, generator=generator)
        slots = {name: tensors[name][:, order].contiguous() for name in ("topk_ids", "topk_weights")}
        return Relation(inputs.with_tensors({}, **slots))
    return Relation(inputs)
