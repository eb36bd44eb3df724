"""The shipped specs, their schema and the digest."""

import json
from pathlib import Path

import pytest

from gen import families
from gen.families.sparse_mla_decode.options import Layout
from gen.families.sparse_mla_decode.spec import Spec
from gen.spec import Fixed, SpecError, SplitWord, bounds, load, load_many, schema, write_schema
from gen.spec.yaml import parse

SPECS = Path(__file__).parents[2] / "specs"
FILES = sorted(SPECS.rglob("*.yaml"))


def test_all_load_in_order_and_once():
    specs = load_many([SPECS, FILES[0]])
    assert [spec.path for spec in specs] == FILES
    assert {spec.name for spec in specs} >= {
        "dsv4_flash_decode_h64",
        "dsv4_flash_decode_h32",
        "dsv4_flash_decode_h16",
        "dsv4_flash_decode_h8",
        "dsv4_flash_window_h64",
        "dsv4_pro_decode_h128",
        "dsv32_decode_h128",
    }


def test_every_option_value_is_shipped():
    specs = [spec for spec in load_many([SPECS]) if isinstance(spec, Spec)]
    for option, field in type(specs[0].features).model_fields.items():
        assert field.annotation is not None
        every = {True} if field.annotation is bool else set(field.annotation)
        assert every <= {getattr(spec.features, option) for spec in specs}, option
    assert {spec.layout for spec in specs} == set(Layout)
    assert {spec.shapes.has_extra for spec in specs} == {True, False}
    assert {type(spec.split) for spec in specs} == {SplitWord, Fixed}


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_names_the_schema_for_editors(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    prefix = "# yaml-language-server: $schema="
    assert first.startswith(prefix)
    assert (path.parent / first.removeprefix(prefix)).resolve() == SPECS / "schema.json"


def test_schema_file_is_current(tmp_path):
    write_schema(tmp_path / "schema.json")
    assert (tmp_path / "schema.json").read_bytes() == (SPECS / "schema.json").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["schema.json"]


def test_schema_covers_the_keys_of_every_family():
    document = schema()
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert len(document["oneOf"]) == len(families.names())
    for form, name in zip(document["oneOf"], families.names(), strict=True):
        form = document["$defs"][form["$ref"].rsplit("/")[-1]]
        assert form["additionalProperties"] is False
        assert form["properties"]["family"]["const"] == name
        assert list(form["properties"]) == list(families.model(name).model_fields)
    tiles = [entry["properties"] for name, entry in document["$defs"].items() if name.endswith("Tile")]
    assert any("16" in json.dumps(tile["heads"]["enum"]) for tile in tiles if "heads" in tile)


def test_digest_ignores_comments_spacing_and_order(valid, load_text):
    digest = load_text(valid).digest
    bare = parse(valid.encode(), Path("x.yaml")).value
    assert load_text(json.dumps(bare, indent=1)).digest == digest
    assert load_text(json.dumps(dict(reversed(bare.items())))).digest == digest
    assert load_text("# another comment\n" + valid.replace("lse_base: e", 'lse_base:   "e"')).digest == digest
    assert load_text(valid.replace("lse_empty: +inf", "lse_empty: .inf")).digest == digest
    assert load_text(valid[: valid.index("tolerances")]).digest == digest, "the shipped bars are the defaults"


def test_digest_follows_every_value(valid, load_text):
    edits = [
        ("example_h64", "another"),
        ("max: 512", "max: 513"),
        ("tokens: {min: 1, max: 512}", "tokens: 512"),
        ("heads: 64", "heads: 32"),
        ("split: waves", "split: none"),
        ("split: waves", "split: {fixed: 4}"),
        ("keys: 32", "keys: 64"),
        ("lse_base: e", "lse_base: 2"),
        ("lse_empty: +inf", "lse_empty: -1e30"),
        ("sm_120a", "sm_121a"),
        ("out_absolute: 1.0e-3", "out_absolute: 2.0e-3"),
    ]
    digests = {load_text(valid).digest}
    digests |= {load_text(valid.replace(old, new, 1)).digest for old, new in edits}
    assert len(digests) == 1 + len(edits)


def test_two_files_of_one_name(valid, tmp_path):
    first, second = tmp_path / "a" / "x.yaml", tmp_path / "b.yaml"
    first.parent.mkdir()
    first.write_text(valid)
    second.write_text("# moved one line down\n" + valid)
    with pytest.raises(SpecError) as caught:
        load_many([tmp_path])
    line = valid.splitlines().index("name: example_h64") + 1
    assert (caught.value.path, caught.value.line, caught.value.field) == (second, line + 1, "name")
    assert f"{first}:{line}" in caught.value.reason


def test_layouts_match_flashmla():
    v4, v32 = Layout.V4, Layout.V32
    assert (v4.d_qk, v4.d_v, v4.d_nope, v4.d_rope, v4.scale_group, v4.scales) == (512, 512, 448, 64, 64, 7)
    assert (v32.d_qk, v32.d_v, v32.d_nope, v32.d_rope, v32.scale_group, v32.scales) == (
        576,
        512,
        512,
        64,
        128,
        4,
    )
    assert (v4.row_bytes, v4.token_bytes, v32.row_bytes, v32.token_bytes) == (576, 584, 656, 656)
    assert [v4.page_bytes(page) for page in (256, 64, 2)] == [149_760, 37_440, 1_728]
    assert v32.page_bytes(64) == 64 * 656


def test_sizes_and_immutability():
    spec = load(SPECS / "deepseek_v4_flash" / "decode_h8.yaml")
    assert isinstance(spec, Spec)
    assert bounds(spec.shapes.tokens) == (0, 65536)
    assert bounds(spec.shapes.heads) == (8, 8)
    with pytest.raises(ValueError, match="frozen"):
        spec.shapes.heads = 16
    assert spec.features.lse_empty.number == pytest.approx(-1e30, rel=1e-7)
