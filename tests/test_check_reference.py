"""The reference against the formula, element by element in Python floats; the metrics on known numbers."""

import itertools
import math
import struct
from pathlib import Path

import pytest
import torch

from gen.check.case import Case
from gen.check.metrics import distance, failing
from gen.families import sparse_mla_decode as family
from gen.families.sparse_mla_decode.spec import LseBase, LseEmpty, Sink
from gen.spec import RunTimeSize, load

SPECS = Path(__file__).parents[1] / "specs"
V4 = load(SPECS / "deepseek_v4_flash/decode_h8.yaml")
V32 = load(SPECS / "deepseek_v32/decode_h128.yaml")
HEADS = 8


def _e4m3(byte: int) -> float:
    sign, exponent, mantissa = -1.0 if byte & 0x80 else 1.0, byte >> 3 & 15, byte & 7
    if exponent == 15 and mantissa == 7:
        return math.nan
    return sign * (mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7))


def _bf16(low: int, high: int) -> float:
    return struct.unpack("<f", bytes([0, 0, low, high]))[0]


def _to_bf16(value: float) -> float:
    """Rounded to nearest even through the bits of the fp32 value."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def _key(v4: bool, cache: torch.Tensor, page: int, slot: int) -> list[float]:
    """One cached key from its bytes, by FlashMLA's description of the two layouts."""
    block, at = cache[slot // page].tolist(), slot % page
    if v4:
        row = block[at * 576 : at * 576 + 576]
        footer = block[page * 576 + at * 8 : page * 576 + at * 8 + 7]
        scales, group, count, rope = [2.0 ** (byte - 127) for byte in footer], 64, 448, row[448:]
    else:
        row = block[at * 656 : at * 656 + 656]
        scales, group, count, rope = struct.unpack("<4f", bytes(row[512:528])), 128, 512, row[528:]
    values = [_to_bf16(_e4m3(row[d]) * scales[d // group]) for d in range(count)]
    return values + [_bf16(low, high) for low, high in zip(rope[::2], rope[1::2], strict=True)]


def _naive(spec, inputs, v4: bool) -> tuple[list, list]:
    tensors, features = inputs.tensors, spec.features
    out, lse = [], []
    for token in range(inputs.sizes["tokens"]):
        keys = []
        for name in ("main", "extra") if "extra_cache" in tensors else ("main",):
            row = tensors[f"{name}_indices"][token].tolist()
            length = int(tensors[f"{name}_lengths"][token]) if features.lengths else len(row)
            keys += [
                _key(v4, tensors[f"{name}_cache"], inputs.sizes[f"{name}_page"], index)
                for column, index in enumerate(row)
                if index >= 0 and column < length
            ]
        for head in range(spec.shapes.heads):
            query = tensors["q"][token, head].double().tolist()
            scores = [sum(map(float.__mul__, query, key)) * inputs.softmax_scale for key in keys]
            top = max(scores, default=0.0)
            total = math.fsum(math.exp(score - top) for score in scores)
            # In the numbers' own scale: exp(score) / (Σ exp(score) + exp(sink)), the sink only as given.
            sink = float(tensors["sink"][head]) if features.sink is not Sink.NONE else -math.inf
            below = total + (math.exp(sink - top) if sink < math.inf else math.inf)
            weights = [math.exp(score - top) / below if below else 0.0 for score in scores]
            out.append(
                [math.fsum(w * key[d] for w, key in zip(weights, keys, strict=True)) for d in range(512)]
            )
            counted = below if features.sink is Sink.OUTPUT_AND_LSE else total
            if counted == 0:
                lse.append(features.lse_empty.number)
            else:
                value = top + math.log(counted) if counted < math.inf else math.inf
                lse.append(value / math.log(2) if features.lse_base is LseBase.TWO else value)
    return out, lse


@pytest.mark.parametrize("v4", [True, False], ids=["v4", "v32"])
@pytest.mark.parametrize("sink", list(Sink), ids=str)
@pytest.mark.parametrize("lse_base", list(LseBase), ids=str)
@pytest.mark.parametrize("lse_empty", list(LseEmpty), ids=str)
def test_reference_is_the_formula(v4, sink, lse_base, lse_empty):
    spec = V4 if v4 else V32
    widths = ["main", "extra"] if v4 else ["main"]
    shapes = {"heads": HEADS} | {f"{name}_page": RunTimeSize(min=1, max=64) for name in widths}
    spec = spec.model_copy(update={"shapes": spec.shapes.model_copy(update=shapes)})
    options = {"sink": sink, "lse_base": lse_base, "lse_empty": lse_empty}
    for lengths, (width, indices, values, kind) in itertools.product(
        (True, False),
        [
            (3, "random", "normal", "normal"),
            (2, "holes", "extreme", "mixed"),
            (1, "invalid", "normal", "mixed"),
        ],
    ):
        features = spec.features.model_copy(update=options | {"lengths": lengths})
        one = spec.model_copy(update={"features": features})
        sizes = (
            {"tokens": 2}
            | {f"{name}_page": 2 for name in widths}
            | {f"{name}_width": width for name in widths}
        )
        knobs = {"values": values, "indices": indices, "stride": "padded", "far": False, "seed": width}
        knobs |= {"lengths": "random", "sink": kind}
        inputs = family.make_inputs(one, Case(sizes, knobs))
        got = family.reference(one, inputs)
        out, lse = _naive(one, inputs, v4)
        assert torch.allclose(got["out"].flatten(0, 1), torch.tensor(out).double(), rtol=1e-6, atol=1e-30)
        assert torch.allclose(
            got["lse"].flatten(), torch.tensor(lse, dtype=torch.float64), rtol=1e-9, atol=1e-12
        )


def test_the_rounded_reference_differs_from_the_exact_by_bf16_rounding():
    case = family.must_test(V4)["many_splits"]
    inputs = family.make_inputs(V4, case)
    exact, rounded = (family.reference(V4, inputs, dtype)["out"] for dtype in (torch.float64, torch.bfloat16))
    error = distance(rounded, exact)
    assert 0 < error.rms < 2.0**-8 * float(exact.abs().max())
    assert torch.equal(rounded, rounded.to(torch.bfloat16).double())


def test_distance():
    inf = math.inf
    same = distance(torch.tensor([1.0, inf, -inf]), torch.tensor([1.0, inf, -inf]))
    assert (same.absolute, same.rms, same.percentile_99) == (0, 0, 0)
    assert abs(same.cosine) < 1e-12
    far = distance(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0]))
    assert (far.absolute, far.rms, far.cosine) == (4.0, math.sqrt(12.5), 1.0)
    assert distance(torch.tensor([2.0]), torch.tensor([1.0])).cosine == pytest.approx(1 - 4 / 5)
    assert distance(torch.tensor([inf]), torch.tensor([1.0])).absolute == inf
    assert math.isnan(distance(torch.tensor([math.nan]), torch.tensor([1.0])).absolute)
    empty = distance(torch.zeros(0), torch.zeros(0))
    assert (empty.absolute, empty.percentile_99, empty.rms, empty.cosine) == (0, 0, 0, 0)


def test_failing_needs_both_bars_to_fail():
    want = torch.tensor([100.0, 100.0, 1.0, 1.0, math.inf, math.inf, 0.0, math.nan])
    got = torch.tensor([100.5, 102.0, 1.005, 1.05, math.inf, 1.0, math.nan, math.nan])
    assert failing(got, want, 0.01, 0.01).flatten().tolist() == [1, 3, 5, 6, 7]
    assert failing(got[:2], want[:2], torch.tensor([0.0, 3.0]), 0.0).tolist() == [[0]]
