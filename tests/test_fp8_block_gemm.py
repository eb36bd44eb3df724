"""The family fp8_block_gemm without a compiler or with a stand-in for one: call, reference, plan and bars."""

from pathlib import Path

import pytest
import torch

import gen
from gen import device
from gen.check.case import Case, Inputs
from gen.families import fp8_block_gemm as family
from gen.families.fp8_block_gemm.compare import calc_diff
from gen.families.fp8_block_gemm.plan import bucket_of
from gen.spec import SpecError, load

SPECS = Path(__file__).parents[1] / "specs/deepseek_v4_flash"
SCALED, PROMOTED, BATCHED = (
    load(SPECS / f"{name}.yaml") for name in ("wq_b", "projections_fp32", "wo_a_tp4")
)
GROUPED = load(Path(__file__).parent / "kernels/specs/fp8_grouped.yaml")
CARD = device.load("rtx_pro_6000")


def _inputs(spec, m=3, n=136, k=256, **knobs) -> Inputs:
    return family.make_inputs(
        spec, Case({"m": m, "n": n, "k": k}, {"values": "normal", "stride": "packed", "seed": 5} | knobs)
    )


@pytest.mark.parametrize("spec", [SCALED, PROMOTED, BATCHED], ids=lambda spec: spec.name)
def test_reference_against_loops(spec):
    inputs = _inputs(spec, stride="wide")
    t, groups = inputs.tensors, spec.shapes.groups
    a, sa = (t[x].reshape(3, groups, -1) for x in ("a", "a_scale"))
    b, sb = t["b"].reshape(groups, 136, -1), t["b_scale"].reshape(groups, 2, -1)
    value = (lambda s: 2.0 ** (int(s) - 127)) if spec is not PROMOTED else float
    want = family.reference(spec, inputs)["out"].reshape(3, groups, 136)
    for row, group, column in [(0, 0, 0), (2, groups - 1, 135), (1, groups - 1, 127), (1, 0, 128)]:
        total = 0.0
        for block in range(2):
            part = slice(128 * block, 128 * block + 128)
            dot = float(a[row, group, part].double() @ b[group, column, part].double())
            total += dot * value(sa[row, group, block]) * value(sb[group, column // 128, block])
        assert float(want[row, group, column]) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("spec", [SCALED, BATCHED], ids=lambda spec: spec.name)
def test_call_matches_the_reference(spec):
    inputs = _inputs(spec, m=5)
    op = gen.load(spec.path)
    (out,) = op(**inputs.tensors)
    (want,) = op.reference(**inputs.tensors)
    torch.testing.assert_close(out.double(), want, rtol=2**-8, atol=1e-3)
    e8m0 = {
        name: t.view(torch.float8_e8m0fnu) for name, t in inputs.tensors.items() if name.endswith("scale")
    }
    assert torch.equal(op(**{**inputs.tensors, **e8m0})[0], out)


WRONG_SHAPES = [
    ("a", lambda t: t[:, :128], "a: the shape must be [3, 256]"),
    ("b_scale", lambda t: t[:1], "b_scale: the shape must be [2, 2]"),
    ("b", lambda t: t[:129], "n is 129; the spec takes 8 to 32768, a multiple of 8"),
    ("b", lambda t: t[0], "2 dimensions are needed, not 2 and 1"),
    ("b", lambda t: torch.cat([t, t], 1)[:, :256], "b: only the stride of its rows"),
    ("a", lambda t: torch.cat([t, t[:, :8]], 1)[:, :256], "a: its rows must start at multiples of 16"),
]


@pytest.mark.parametrize(("name", "change", "text"), WRONG_SHAPES)
def test_wrong_shapes_and_strides(name, change, text):
    tensors = _inputs(SCALED).tensors
    changed = change(tensors[name].view(torch.uint8)).view(tensors[name].dtype)
    with pytest.raises(ValueError) as caught:
        family.bind(SCALED, tensors | {name: changed})
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("name", "dtype", "text"),
    [("a", torch.bfloat16, "a: a torch.float8_e4m3fn"), ("a_scale", torch.float32, "a_scale: a torch.uint8")],
)
def test_wrong_types(name, dtype, text):
    tensors = _inputs(SCALED).tensors
    with pytest.raises(TypeError, match=text):
        family.bind(SCALED, tensors | {name: tensors[name].to(dtype)})


def test_missing_and_unknown_arguments():
    tensors = _inputs(SCALED).tensors
    with pytest.raises(TypeError, match="wrong or missing: b_scale"):
        family.bind(SCALED, {name: t for name, t in tensors.items() if name != "b_scale"})
    with pytest.raises(TypeError, match="wrong or missing: bias"):
        family.bind(SCALED, tensors | {"bias": tensors["a"]})


def test_buckets_by_rows():
    assert [bucket_of(SCALED, m).m for m in (0, 1, 16, 17, 64, 65, 60000)] == [16, 16, 16, 32, 32, 128, 128]


def test_few_rows_split_k_and_many_do_not():
    one = family.launch_plan(SCALED, {"m": 1, "n": 512, "k": 1024}, CARD)
    (launch,) = one.launches
    assert launch.kernel == "gemm_m16"
    assert launch.grid == (8, 1, one.splits.count)
    assert one.splits.count > 1
    assert one.scratch["partial_out"].shape == (one.splits.count, 1, 1, 512)
    many = family.launch_plan(SCALED, {"m": 8192, "n": 32768, "k": 1024}, CARD)
    assert many.splits.count == 1
    assert many.launches[0].grid == (256, 64, 1)
    assert many.scratch["partial_out"].shape[0] == 0
    batched = family.launch_plan(BATCHED, {"m": 1, "n": 1024, "k": 4096}, CARD, 3)
    assert batched.launches[0].grid == (16, 1, 2 * 3)


def test_a_tile_too_large_is_refused():
    buckets = [*SCALED.tile.buckets[:-1], SCALED.tile.buckets[-1].model_copy(update={"stages": 4})]
    spec = SCALED.model_copy(update={"tile": SCALED.tile.model_copy(update={"buckets": buckets})})
    with pytest.raises(SpecError) as caught:
        family.plan(spec)
    assert (caught.value.field, caught.value.fix) == ("tile.buckets.2.stages", "use 3")


def test_the_backend_is_one_field_of_a_spec():
    tilelang = load(SPECS / "projections_fp32_tilelang.yaml")
    differing = {"name": PROMOTED.name, "backend": PROMOTED.backend}
    assert tilelang.model_dump() | differing == PROMOTED.model_dump()


def test_tilelang_with_ue8m0_scales_is_refused(tmp_path):
    path = tmp_path / "wq_b.yaml"
    path.write_text(SCALED.path.read_text().replace("backend: cutlass", "backend: tilelang"))
    with pytest.raises(SpecError) as caught:
        load(path)
    assert (caught.value.field, caught.value.line) == ("backend", 5)
    assert caught.value.fix == "use backend: cutlass or scale: float32"


@pytest.mark.parametrize("rows", ["random", "even", "some_empty", "first", "last"])
def test_grouped_reference_and_tiles(rows):
    inputs = _inputs(GROUPED, m=70, rows=rows)
    t, ends = inputs.tensors, inputs.tensors["offsets"].tolist()
    want = family.reference(GROUPED, inputs)["out"]
    factors = t["a_scale"].double().repeat_interleave(128, -1)
    owners = []
    for row in range(70):
        group = next(g for g in range(5) if ends[g] <= row < ends[g + 1])
        weights = t["b"][group].double() * t["b_scale"][group].double().repeat_interleave(128, 0)[
            :136
        ].repeat_interleave(128, -1)
        torch.testing.assert_close(want[row], weights @ (t["a"][row].double() * factors[row]))
        owners.append(group)
    (launch,) = family.launch_plan(GROUPED, inputs.sizes, CARD, 1).launches
    tiles = {(ends[g] // 16 + g + (row - ends[g]) // 16, g) for row, g in enumerate(owners)}
    assert len({tile for tile, _ in tiles}) == len(tiles), "two groups share a tile"
    assert launch.kernel == "gemm_m16"
    assert launch.grid == (3, 5 + 5, 1)
    assert max(tile for tile, _ in tiles) < launch.grid[1]


def test_offsets_are_checked_where_they_can_be():
    tensors = _inputs(GROUPED, rows="even").tensors
    for offsets in ([0, 2, 1, 3, 3, 3], [1, 1, 1, 3, 3, 3], [0, 1, 1, 1, 1, 2]):
        with pytest.raises(ValueError, match="offsets: they must ascend from 0 to m, 3"):
            family.bind(GROUPED, tensors | {"offsets": torch.tensor(offsets, dtype=torch.int32)})
    with pytest.raises(ValueError, match=r"offsets: the shape must be \[6\]"):
        family.bind(GROUPED, tensors | {"offsets": tensors["offsets"][:5]})


def test_calc_diff():
    x = torch.tensor([1.0, 2.0, float("inf")])
    assert calc_diff(x, x) == pytest.approx(0, abs=1e-15)
    y = torch.tensor([1.0, -2.0, 3.0])
    assert calc_diff(x, y) == pytest.approx(1 - 2 * (1 - 4) / 10)
    assert calc_diff(torch.zeros(2), torch.zeros(2)) == 0
