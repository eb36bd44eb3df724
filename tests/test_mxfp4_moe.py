"""The family mxfp4_moe without a compiler or with a stand-in for one: call, reference, plan and bars."""

import math
from pathlib import Path

import pytest
import torch

import gen
from gen import device
from gen.check.case import Case, Inputs
from gen.families import mxfp4_moe as family
from gen.families.mxfp4_moe.options import Layout
from gen.families.mxfp4_moe.plan import bucket_of, max_blocks
from gen.families.mxfp4_moe.reference import amax, dequantized, gate_and_up, quantized, scales, swiglu
from gen.families.mxfp4_moe.spec import Features
from gen.spec import SpecError, load

ROOT = Path(__file__).parents[1]
FLASH = load(ROOT / "specs/deepseek_v4_flash/moe_w4a16.yaml")
QUANTIZED = load(ROOT / "specs/deepseek_v4_flash/moe_w4a8.yaml")
CARD = device.load("rtx_pro_6000")
SIZES = {"tokens": 3, "hidden": 256, "intermediate": 128, "experts": 7}


def _inputs(spec=FLASH, **knobs) -> Inputs:
    return family.make_inputs(
        spec, Case(SIZES, {"values": "normal", "routing": "filtered", "seed": 5} | knobs)
    )


def _with(spec, **features):
    return spec.model_copy(update={"features": spec.features.model_copy(update=features)})


def test_dequantization():
    packed = torch.tensor([[0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE, *[0x2F] * 8]], dtype=torch.uint8)
    values = dequantized(packed, torch.tensor([[128]], dtype=torch.uint8))
    half = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    want = [2 * v for v in half] + [-2 * v for v in half] + [-12, 2] * 8
    assert values.tolist() == [want]
    assert math.copysign(1, float(values[0, 8])) == -1
    assert dequantized(packed, torch.tensor([[0]], dtype=torch.uint8))[0, 2] == 2.0**-127
    assert dequantized(packed, torch.tensor([[255]], dtype=torch.uint8)).isnan().all()


@pytest.mark.parametrize("layout", Layout)
def test_order_of_gate_and_up(layout):
    spec = FLASH.model_copy(update={"layout": layout})
    gate, up = gate_and_up(spec, torch.arange(4))
    want = {"gate_up": ([0, 1], [2, 3]), "up_gate": ([2, 3], [0, 1]), "interleaved": ([0, 2], [1, 3])}
    assert (gate.tolist(), up.tolist()) == want[str(layout)]


@pytest.mark.parametrize(
    ("features", "gate", "up", "want"),
    [
        (Features(limit=10.0), 12.0, -11.0, 10 / (1 + math.exp(-10)) * -10),
        (Features(limit=10.0), -12.0, 3.0, -12 / (1 + math.exp(12)) * 3),
        (Features(alpha=1.702, beta=1.0, limit=7.0), 2.0, 8.0, 2 / (1 + math.exp(-3.404)) * 8),
        (Features(), 100.0, 20.0, 2000.0),
    ],
)
def test_swiglu(features, gate, up, want):
    exact = torch.zeros(1, dtype=torch.float64)
    got, _ = swiglu(features, exact + gate, exact, exact + up, exact)
    assert float(got) == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("before", [True, False])
def test_reference_against_loops(before):
    spec = _with(FLASH, weight_before_down=before, routed_scaling_factor=1.5)
    inputs = _inputs(spec)
    t = inputs.tensors
    token = int((t["topk_ids"] >= 0).sum(-1).argmax())
    want = torch.zeros(256, dtype=torch.float64)
    for expert, weight in zip(t["topk_ids"][token].tolist(), t["topk_weights"][token].tolist(), strict=True):
        if expert < 0:
            continue
        w13 = dequantized(t["w13"][expert], t["w13_scale"][expert])
        w2 = dequantized(t["w2"][expert], t["w2_scale"][expert])
        gate, up = (w13 @ t["hidden_states"][token].double()).chunk(2)
        h = torch.nn.functional.silu(gate.clamp(max=10)) * up.clamp(-10, 10)
        h = (h * weight if before else h).bfloat16().double()
        row = (w2 @ h).bfloat16().double()
        want += row if before else row * weight
    got = family.reference(spec, inputs)
    torch.testing.assert_close(got["out"][token], want * 1.5, rtol=1e-12, atol=0)
    assert (got["bound"] < 2e-2 * want.abs().max()).all()


def test_quantization():
    largest = torch.tensor([448.0, 449.0, 1.75, 1.7578125, 0.0, 6.0], dtype=torch.float64)
    values = torch.zeros(6, 32, dtype=torch.float64)
    values[:, 3] = -largest
    values[:, 5] = largest / 3
    found = scales(amax(values, 32))
    assert found.flatten().tolist() == [1, 2, 2.0**-8, 2.0**-7, 2.0**-22, 2.0**-6]
    rounded = quantized(values, found)
    torch.testing.assert_close(rounded, values, rtol=2.0**-4, atol=0)
    assert torch.equal(rounded, quantized(rounded, found))
    assert quantized(torch.full((1, 32), 500.0).double(), torch.ones(1, 1).double()).max() == 448


@pytest.mark.parametrize("group", [32, 128])
def test_quantized_reference_is_near_the_plain_one(group):
    dtypes = QUANTIZED.dtypes.model_copy(update={"activation_group": group})
    inputs = _inputs()
    plain = family.reference(FLASH, inputs)["out"]
    got = family.reference(QUANTIZED.model_copy(update={"dtypes": dtypes}), inputs)["out"]
    assert not torch.equal(got, plain)
    cosine = torch.nn.functional.cosine_similarity(got.flatten(), plain.flatten(), 0)
    assert cosine > 0.995


def test_what_no_pair_uses_is_nan():
    inputs = _inputs()
    t = inputs.tensors
    unused = [expert for expert in range(7) if not (t["topk_ids"] == expert).any()]
    assert unused, "the case has no expert without pairs"
    assert (t["w13_scale"][unused] == 255).all()
    assert (t["w2_scale"][unused] == 255).all()
    assert torch.equal(t["topk_weights"].isnan(), t["topk_ids"] < 0)


def test_call_matches_the_reference():
    inputs = _inputs()
    op = gen.load(FLASH.path)
    (out,) = op(**inputs.tensors)
    (want,) = op.reference(**inputs.tensors)
    torch.testing.assert_close(out.double(), want, rtol=2**-8, atol=1e-2)
    other = {"w13": torch.int8, "w2": torch.int8, "w13_scale": torch.float8_e8m0fnu}
    viewed = {name: inputs.tensors[name].view(dtype) for name, dtype in other.items()}
    assert torch.equal(op(**{**inputs.tensors, **viewed})[0], out)


def test_nan_stays_in_its_token():
    tensors = _inputs(routing="random").tensors
    op = gen.load(FLASH.path)
    (clean,) = op(**tensors)
    tensors["hidden_states"][1, 17] = torch.nan
    (out,) = op(**tensors)
    assert out[1].isnan().all()
    assert torch.equal(out[[0, 2]], clean[[0, 2]])


WRONG_SHAPES = [
    ("w13", lambda t: t[:, :, :64], "w13: the shape must be [7, 256, 128], not [7, 256, 64]"),
    ("w2_scale", lambda t: t[:6], "w2_scale: the shape must be [7, 256, 4]"),
    ("topk_ids", lambda t: t[:, :5], "topk_ids: the shape must be [3, 6]"),
    ("w13", lambda t: t[:, :130], "intermediate is 65; the spec takes 128 to 2048, a multiple of 128"),
    ("hidden_states", lambda t: t[0], "hidden_states: 2 dimensions are needed, not 1"),
    ("w2", lambda t: torch.cat([t, t], -1)[..., :64], "w2: it must be contiguous"),
    ("w13", lambda t: torch.cat([t.flatten()[:8], t.flatten()])[8:].view(t.shape), "w13: it must start at"),
]


@pytest.mark.parametrize(("name", "change", "text"), WRONG_SHAPES)
def test_wrong_shapes(name, change, text):
    tensors = _inputs().tensors
    with pytest.raises(ValueError) as caught:
        family.bind(FLASH, tensors | {name: change(tensors[name])})
    assert text in str(caught.value)


def test_wrong_types_and_names():
    tensors = _inputs().tensors
    with pytest.raises(TypeError, match="topk_ids: a torch"):
        family.bind(FLASH, tensors | {"topk_ids": tensors["topk_ids"].long()})
    with pytest.raises(TypeError, match="wrong or missing: w13_bias"):
        family.bind(FLASH, tensors | {"w13_bias": tensors["hidden_states"]})


def test_buckets_by_tokens():
    assert [bucket_of(FLASH, tokens).m for tokens in (0, 64, 65, 512, 513, 65536)] == [8, 8, 16, 16, 64, 64]


@pytest.mark.parametrize("pairs", range(9))
@pytest.mark.parametrize("experts", [1, 2, 3])
def test_most_blocks_of_any_routing(pairs, experts):
    worst = 0
    for first in range(pairs + 1):
        for second in range(pairs + 1 - first):
            counts = [first, second, pairs - first - second]
            if experts == 3 or not any(counts[experts:]):
                worst = max(worst, sum(-(-count // 4) for count in counts))
    assert max_blocks(pairs, experts, 4) == worst


def test_launches_of_one_token_and_of_none():
    sizes = {"tokens": 1, "hidden": 4096, "intermediate": 2048, "experts": 256}
    plan = family.launch_plan(FLASH, sizes, CARD)
    assert [(launch.kernel, launch.grid, launch.threads) for launch in plan.launches] == [
        ("align", (1, 1, 1), 256),
        ("gate_up_m8", (64, 6, 1), 64),
        ("down_m8", (64, 6, 1), 64),
        ("combine", (1, 8, 1), 128),
    ]
    assert plan.scalars == sizes | {"block_tokens": 8, "max_blocks": 6}
    assert plan.scratch["h"].shape == (6, 2048)
    assert plan.scratch_bytes == 4 * (48 + 6 + 1) + 2 * 6 * (2048 + 4096)
    none = family.launch_plan(FLASH, sizes | {"tokens": 0}, CARD)
    assert all(0 in launch.grid for launch in none.launches)


def test_launches_of_quantized_activations():
    sizes = {"tokens": 2, "hidden": 4096, "intermediate": 2048, "experts": 256}
    plan = family.launch_plan(QUANTIZED, sizes, CARD)
    assert [(launch.kernel, launch.grid) for launch in plan.launches] == [
        ("align", (1, 1, 1)),
        ("quantize_x", (2, 4, 1)),
        ("gate_up_m8", (64, 12, 1)),
        ("quantize_h", (12, 2, 1)),
        ("down_m8", (64, 12, 1)),
        ("combine", (2, 8, 1)),
    ]
    assert plan.scratch["h_scale"].shape == (12, 64)


def _refused(**bucket) -> SpecError:
    buckets = [FLASH.tile.buckets[-1].model_copy(update=bucket)]
    with pytest.raises(SpecError) as caught:
        family.plan(FLASH.model_copy(update={"tile": FLASH.tile.model_copy(update={"buckets": buckets})}))
    return caught.value


def test_tiles_that_cannot_work_are_refused():
    assert (_refused(stages=5).field, _refused(stages=5).fix) == ("tile.buckets.0.stages", "use 4")
    many = FLASH.model_copy(update={"shapes": FLASH.shapes.model_copy(update={"tokens": 1 << 20})})
    buckets = [FLASH.tile.buckets[0].model_copy(update={"up_to": None})]
    with pytest.raises(SpecError, match="blocks of 8 pairs, over CUDA's 65535"):
        family.plan(many.model_copy(update={"tile": FLASH.tile.model_copy(update={"buckets": buckets})}))


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("activation_group: 128, ", "", "activations of float8_e4m3fn need a group of k"),
        ("float8_e4m3fn, activation_group", "bfloat16, activation_group", "bfloat16 have no group of k"),
        ("activation_group: 128", "activation_group: 64", "64 is not one of 32, 128"),
    ],
)
def test_group_belongs_to_quantized_activations(tmp_path, old, new, text):
    path = tmp_path / "group.yaml"
    path.write_text(QUANTIZED.path.read_text().replace(old, new))
    with pytest.raises(SpecError, match=text):
        load(path)


def test_more_threads_than_copies_are_refused():
    buckets = [QUANTIZED.tile.buckets[0].model_copy(update={"up_to": None, "n": 128})]
    tile = QUANTIZED.tile.model_copy(update={"buckets": buckets})
    with pytest.raises(SpecError, match="128 threads copy 16 pairs at a time"):
        family.plan(QUANTIZED.model_copy(update={"tile": tile}))


def test_split_k_is_refused(tmp_path):
    path = tmp_path / "split.yaml"
    path.write_text(FLASH.path.read_text().replace("split: none", "split: waves"))
    with pytest.raises(SpecError, match="k is never split"):
        load(path)
