"""Wrong specs give one paragraph with line, field, reason and a value that works."""

from pathlib import Path

import pytest

from gen.spec import SpecError

TOKENS = "tokens: {min: 1, max: 512}"

# old text, new text, field, part of the reason, part of the fix
WRONG = [
    ("heads: 64", "hedas: 64", "shapes.hedas", "unknown", "use heads"),
    ("layout: v4", "layuot: v4", "layuot", "unknown", "use layout"),
    ("layout: v4", "layout: v4\nxyzzy: 1", "xyzzy", "unknown", "the keys here are name, family"),
    ("lengths: true", "lenghts: true", "features.lenghts", "unknown", "use lengths"),
    ("layout: v4", "", "layout", "missing", "add 'layout:'"),
    ("  heads: 64", "  # ", "shapes.heads", "missing", "add 'heads:'"),
    ("keys: 32, ", "", "tile.keys", "missing", "add 'keys:'"),
    ("heads: 64", "heads: true", "shapes.heads", "true is not an integer", "decimal integer"),
    ("heads: 64", "heads: '64'", "shapes.heads", "'64' is not an integer", "64 without quotes"),
    ("heads: 64", "heads: 64.0", "shapes.heads", "64.0 is not an integer", "write 64"),
    ("heads: 64", "heads: 0x40", "shapes.heads", "not an integer", "decimal integer"),
    ("heads: 64", "heads: {min: 8, max: 64}", "shapes.heads", "not an integer", "decimal integer"),
    ("heads: 64", "heads:", "shapes.heads", "null is not an integer", "decimal integer"),
    ("heads: 64", "heads: 12", "shapes.heads", "12 is not a multiple of 8", "use 16"),
    ("heads: 64", "heads: 0", "shapes.heads", "outside 8 to 128", "use 8"),
    ("heads: 64", "heads: 136", "shapes.heads", "outside 8 to 128", "use 128"),
    ("heads: 64", "heads: " + "9" * 900, "shapes.heads", "outside 8 to 128", "use 128"),
    ("main_page: 256", "main_page: 0", "shapes.main_page", "outside 1 to 65536", "use 1"),
    ("main_page: 256", "main_page: 65537", "shapes.main_page", "outside 1 to 65536", "use 65536"),
    (TOKENS, "tokens: {min: 5, max: 2}", "shapes.tokens.min", "min 5 is greater than max 2", "use 2"),
    (TOKENS, "tokens: {min: -1, max: 0}", "shapes.tokens.min", "-1 is below 0", "use 0"),
    (TOKENS, "tokens: {min: 1, max: 2147483648}", "shapes.tokens.max", "above 2147483647", "use 2147483647"),
    (TOKENS, "tokens: {min: 1, max: '2'}", "shapes.tokens.max", "not an integer", "2 without quotes"),
    (TOKENS, "tokens: {min: 1, mx: 2}", "shapes.tokens.mx", "unknown", "use max"),
    (TOKENS, "tokens: {min: 1}", "shapes.tokens.max", "missing", "add 'max:'"),
    (TOKENS, "tokens: {(range): 1}", "shapes.tokens.'(range)'", "unknown", "the keys here are min, max"),
    (TOKENS, "tokens: [1, 512]", "shapes.tokens", "neither an integer nor {min, max}", "{min: 1, max: 64}"),
    (TOKENS, "tokens: many", "shapes.tokens", "neither an integer nor {min, max}", "write 64"),
    (TOKENS, "tokens: true", "shapes.tokens", "neither an integer nor {min, max}", "write 64"),
    ("  extra_page: {min: 1, max: 64}", "  # ", "shapes.extra_width", "without extra_page", "add extra_page"),
    (
        "  extra_width: {min: 0, max: 8192}",
        "  # ",
        "shapes.extra_page",
        "without extra_width",
        "add extra_width",
    ),
    ("heads: 64", "heads: 16", "tile.heads", "32 heads a block exceed the 16 heads", "use 16"),
    ("heads: 64", "heads: 8", "tile.heads", "exceed the 8 heads, 16 with padding", "use 16"),
    ("keys: 32", "keys: 30", "tile.keys", "30 is not one of 16, 32, 64, 128", "use 32"),
    ("keys: 32", "keys: 1000", "tile.keys", "not one of", "use 128"),
    ("threads: 256", "threads: 400", "tile.threads", "400 is not one of 128, 256, 512", "use 512"),
    (
        "tile: {heads: 32, keys: 32, threads: 256}",
        "tile: 32",
        "tile",
        "not a mapping",
        "heads, keys, threads",
    ),
    ("layout: v4", "layout: v5", "layout", "'v5' is not one of v4, v32", "use v4"),
    ("layout: v4", "layout: V32", "layout", "'V32' is not one of v4, v32", "use v32"),
    ("q: bfloat16", "q: bfloat61", "dtypes.q", "not one of bfloat16", "use bfloat16"),
    ("cache: float8_e4m3fn", "cache: fp8", "dtypes.cache", "not one of", "use float8_e4m3fn"),
    ("split: waves", "split: wave", "split", "neither none, waves nor {fixed: N}", "use waves"),
    ("split: waves", "split: 4", "split", "neither none, waves nor {fixed: N}", "use {fixed: 4}"),
    ("split: waves", "split: null", "split", "null is neither", "use none"),
    ("split: waves", "split: {fixed: 0}", "split.fixed", "0 is below 1", "use 1"),
    ("split: waves", "split: {fixed: 1025}", "split.fixed", "1025 is above 1024", "use 1024"),
    ("split: waves", "split: {fixd: 4}", "split.fixd", "unknown", "use fixed"),
    ("lengths: true", "lengths: yes", "features.lengths", "neither true nor false", "use true or false"),
    ("sink: output", "sink: outptu", "features.sink", "not one of none, output", "use output"),
    ("lse_base: e", "lse_base: 10", "features.lse_base", "10 is not one of e, 2", "use e"),
    ("lse_base: e", "lse_base: 2.0", "features.lse_base", "2.0 is not one of e, 2", "use 2"),
    ("lse_empty: +inf", "lse_empty: .nan", "features.lse_empty", "not one of +inf, -inf, -1e30", "use +inf"),
    ("lse_empty: +inf", "lse_empty: -1e31", "features.lse_empty", "not one of", "use -1e30"),
    (
        "out_absolute: 1.0e-3",
        "out_absolute: .inf",
        "tolerances.out_absolute",
        "not a finite number",
        "1.0e-3",
    ),
    ("out_absolute: 1.0e-3", "out_absolute: small", "tolerances.out_absolute", "not a finite", "1.0e-3"),
    ("out_absolute: 1.0e-3", "out_absolute: true", "tolerances.out_absolute", "not a finite", "1.0e-3"),
    ("out_absolute: 1.0e-3", "out_absolute: -1", "tolerances.out_absolute", "below 0", "use 0"),
    ("target: sm_120a", "target: sm_120", "target", "'sm_120' is not one of sm_120a, sm_121a", "use sm_120a"),
    ("backend: tilelang", "backend: triton", "backend", "not one of tilelang, cutlass", "use "),
    ("family: sparse_mla_decode", "family: sparse_mla", "family", "not one of", "use sparse_mla_decode"),
    ("family: sparse_mla_decode", "family: [1]", "family", "[1] is not one of", "use "),
    ("family: sparse_mla_decode", "", "family", "missing", "add 'family:'"),
    ("name: example_h64", "name: 64", "name", "64 is not a word", "letters"),
    ("name: example_h64", "name: Decode-H64", "name", "is not a name", "use decode_h64"),
]


@pytest.mark.parametrize(("old", "new", "field", "reason", "fix"), WRONG, ids=[row[1][:40] for row in WRONG])
def test_wrong_value(valid, load_text, old, new, field, reason, fix):
    assert valid.count(old) >= 1
    text = valid.replace(old, new, 1)
    with pytest.raises(SpecError) as caught:
        load_text(text)
    error = caught.value
    assert error.field == field
    assert reason in error.reason
    assert fix in error.fix
    assert error.line is not None
    key = field.split(".")[-1].strip("'")
    line = text.splitlines()[error.line - 1]
    parent = field.split(".")[-2] if "." in field else "name"
    assert (parent if "missing" in reason else key) in line
    paragraph = str(error)
    assert paragraph.startswith(f"{error.path}:{error.line}: {field}: ")
    assert "\n" not in paragraph
    assert len(paragraph) < len(str(error.path)) + 400


def test_suggested_values_work(valid, load_text):
    for old, new in [
        ("heads: 64", "heads: 16"),
        ("keys: 32", "keys: 64"),
        ("split: waves", "split: {fixed: 4}"),
    ]:
        load_text(valid.replace(old, new, 1).replace("tile: {heads: 32", "tile: {heads: 16"))


def test_first_of_several_errors_by_line(valid, load_text):
    text = (
        valid.replace("threads: 256", "threads: 1").replace("heads: 64", "heads: 1").replace("v4\n", "v5\n")
    )
    with pytest.raises(SpecError) as caught:
        load_text(text)
    assert caught.value.field == "shapes.heads"
    assert caught.value.more == 2
    assert str(caught.value).endswith("The file has 2 more errors.")


def test_unknown_key_is_reported_before_the_missing_one(valid, load_text):
    with pytest.raises(SpecError) as caught:
        load_text(valid.replace("split: waves", "spilt: waves"))
    assert (caught.value.field, caught.value.more) == ("spilt", 1)
    assert str(caught.value).endswith("The file has 1 more error.")


def test_later_stages_refuse_with_position(valid, load_text):
    spec = load_text(valid)
    lines = valid.splitlines()
    error = spec.error("tile.keys", "112,640 bytes of shared memory exceed 101,376", "use 64")
    assert lines[error.line - 1].startswith("tile:")
    assert error.path == spec.path
    assert str(error).endswith(": tile.keys: 112,640 bytes of shared memory exceed 101,376; use 64.")
    assert lines[spec.error("features.absent", "r", "f").line - 1].startswith("features:")
    assert spec.error("absent", "r", "f").line == lines.index("name: example_h64") + 1


def test_messages_are_short_and_printable(valid, load_text):
    for name in ("x" * 900, "a\\n\\u202eb\\u0007" * 50, "\\ud800"):
        with pytest.raises(SpecError) as caught:
            load_text(valid.replace("example_h64", f'"{name}"'))
        text = str(caught.value)
        assert text.isprintable()
        assert len(text) < len(str(caught.value.path)) + 300


def test_an_error_is_one_paragraph_whatever_the_path():
    error = SpecError(Path("a\nb\x1b[31m.yaml"), 3, "tile.keys", "found \x00", "use 32")
    assert str(error) == "a\\nb\\x1b[31m.yaml:3: tile.keys: found \\x00; use 32."
