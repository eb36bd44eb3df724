"""Cases: as JSON and back, refused where they are none of a spec's, drawn within its bounds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gen.check.case import Case
from gen.check.strategies import MAX_SEED, cases, validate
from gen.families import sparse_mla_decode as family
from gen.families.sparse_mla_decode.cache import gather
from gen.spec import RunTimeSize, bounds, load

SPECS = Path(__file__).parents[1] / "specs"
SHIPPED = [
    spec for path in sorted(SPECS.rglob("*.yaml")) if (spec := load(path)).family == "sparse_mla_decode"
]
BY_SPEC = pytest.mark.parametrize("spec", SHIPPED, ids=lambda spec: spec.name)
WINDOW = next(spec for spec in SHIPPED if spec.name == "dsv4_flash_window_h64")
PLAIN = family.must_test(WINDOW)["whole_tile"]


def _within(spec, sizes) -> bool:
    return all(
        low <= size <= high
        for name, size in sizes.items()
        for low, high in [bounds(getattr(spec.shapes, name))]
    )


@BY_SPEC
@given(st.data())
def test_drawn_cases_are_the_spec_s_and_survive_json(spec, data):
    case = data.draw(cases(spec, family))
    assert set(case.sizes) == set(family.fuzz_sizes(spec))
    assert _within(spec, case.sizes)
    validate(spec, family, case)
    line = case.to_json()
    assert "\n" not in line
    assert Case.from_json(line) == case


@BY_SPEC
def test_must_test_cases_are_the_spec_s(spec):
    known = family.must_test(spec)
    assert {"holes_over_nan_slots", "no_columns", "exact", "far_pages"} <= set(known)
    for case in known.values():
        assert _within(spec, case.sizes)
        validate(spec, family, Case.from_json(case.to_json()))


@BY_SPEC
@given(st.data())
def test_inputs_follow_the_spec(spec, data):
    case = data.draw(cases(spec, family))
    inputs, again = family.make_inputs(spec, case), family.make_inputs(spec, case)
    assert inputs.sizes == again.sizes == dict(case.sizes)
    tokens = case.sizes["tokens"]
    assert inputs.tensors["q"].shape == (tokens, spec.shapes.heads, spec.layout.d_qk)
    for name, tensor in inputs.tensors.items():
        assert torch.equal(tensor.view(torch.uint8), again.tensors[name].view(torch.uint8))
    for name in ("main", "extra") if spec.shapes.has_extra else ("main",):
        cache, indices = inputs.tensors[f"{name}_cache"], inputs.tensors[f"{name}_indices"]
        page = case.sizes[f"{name}_page"]
        assert indices.shape == (tokens, case.sizes[f"{name}_width"])
        assert ((indices >= -1) & (indices < len(cache) * page)).all()
        named = torch.unique(indices[indices >= 0]).long()
        assert gather(spec.layout, cache, page, named).isfinite().all()
        others = torch.tensor(sorted({*range(len(cache) * page)} - {*named.tolist()}), dtype=torch.long)
        assert gather(spec.layout, cache, page, others).isnan().all(), "an unused slot is not NaN"
    assert family.reference(spec, inputs)["out"].isfinite().all()


@BY_SPEC
@given(data=st.data(), relation=st.sampled_from(family.RELATIONS), seed=st.integers(0, MAX_SEED))
def test_related_inputs_stay_within_the_spec(spec, data, relation, seed):
    inputs = family.make_inputs(spec, data.draw(cases(spec, family)))
    related = family.related(spec, inputs, relation, seed)
    assert _within(spec, related.inputs.sizes)
    tokens = related.inputs.sizes["tokens"]
    assert len(related.inputs.tensors["q"]) == tokens == inputs.sizes["tokens"] - related.first_token
    want = family.reference(spec, inputs)
    got = family.reference(spec, related.inputs)
    for name in ("out", "lse"):
        assert torch.allclose(got[name], want[name][related.first_token :], rtol=1e-9, atol=1e-9), name


def test_a_compile_time_size_is_drawn_as_it_is():
    shapes = WINDOW.shapes.model_copy(update={"tokens": 5, "main_width": RunTimeSize(min=100, max=100)})
    spec = WINDOW.model_copy(update={"shapes": shapes})

    @given(cases(spec, family))
    def drawn(case):
        assert (case.sizes["tokens"], case.sizes["main_page"], case.sizes["main_width"]) == (5, 256, 100)

    drawn()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{bad",
        "[]",
        "1",
        "null",
        '"x"',
        "{}",
        '{"sizes": {}}',
        '{"sizes": {}, "knobs": {}, "more": 1}',
        '{"sizes": [], "knobs": {}}',
        '{"sizes": {}, "knobs": null}',
        "[" * 100_000,
        '{"sizes": NaN}',
        "\0",
    ],
    ids=range(14),
)
def test_what_is_no_case_is_a_value_error(text):
    with pytest.raises(ValueError, match="a case is"):
        Case.from_json(text)


WRONG_SIZES = [
    ({"tokens": -1}, "tokens is -1; use an integer from 0 to 65536"),
    ({"tokens": 65537}, "tokens is 65537"),
    ({"tokens": True}, "tokens is true"),
    ({"tokens": 1.0}, "tokens is 1.0"),
    ({"tokens": "1"}, "tokens is '1'"),
    ({"tokens": None}, "tokens is null"),
    ({"tokens": [1]}, "tokens is"),
    ({"main_page": 64}, "main_page is 64; use an integer from 256 to 256"),
    ({"main_width": 129}, "main_width is 129; use an integer from 0 to 128"),
    ({"extra_width": 5}, "wrong or missing: 'extra_width'"),
]
WRONG_KNOBS = [
    ({"values": "nonsense"}, "values is 'nonsense'; use one of 'normal', 'exact', 'extreme'"),
    ({"values": ["normal"]}, "values is"),
    ({"indices": None}, "indices is null"),
    ({"relation": "nonsense"}, "relation is 'nonsense'; use one of 'none', 'rerun'"),
    ({"seed": -1}, "the seed is -1"),
    ({"seed": 2**31}, "the seed is 2147483648"),
    ({"seed": True}, "the seed is true"),
    ({"colour": "red"}, "wrong or missing: 'colour'"),
]


@pytest.mark.parametrize(("change", "text"), WRONG_SIZES)
def test_a_size_outside_the_spec_is_refused(change, text):
    validate(WINDOW, family, PLAIN)
    with pytest.raises(ValueError, match="dsv4_flash_window_h64: ") as caught:
        validate(WINDOW, family, replace(PLAIN, sizes=PLAIN.sizes | change))
    assert text in str(caught.value)


@pytest.mark.parametrize(("change", "text"), WRONG_KNOBS)
def test_an_unknown_knob_is_refused(change, text):
    with pytest.raises(ValueError, match="dsv4_flash_window_h64: ") as caught:
        validate(WINDOW, family, replace(PLAIN, knobs=PLAIN.knobs | change))
    assert text in str(caught.value)


@pytest.mark.parametrize("part", ["sizes", "knobs"])
def test_a_missing_name_is_refused(part):
    data = json.loads(PLAIN.to_json())
    name = next(iter(data[part]))
    del data[part][name]
    with pytest.raises(ValueError, match=f"wrong or missing: '{name}'"):
        validate(WINDOW, family, Case.from_json(json.dumps(data)))


def test_a_case_without_relation_or_with_a_must_test_knob_is_the_spec_s():
    assert "relation" not in PLAIN.knobs
    validate(WINDOW, family, replace(PLAIN, knobs=PLAIN.knobs | {"far": True}))
    with pytest.raises(ValueError, match="far is 'yes'"):
        validate(WINDOW, family, replace(PLAIN, knobs=PLAIN.knobs | {"far": "yes"}))
