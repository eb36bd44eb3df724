"""A spec is data: no text in it reaches a template, a path or an import."""

import builtins
import keyword

import pytest

from gen import families
from gen.families.sparse_mla_decode.options import Layout, LseBase, LseEmpty
from gen.spec import SpecError
from gen.values import Choice

ATTACKS = [
    "x'", 'x"', '"""', "'''", "x\\", "x\ny", "x\r", "x\n", " x", "x ", "", "{{ 7 * 7 }}", "{% raw %}",
    "{# #}", "${HOME}", "$(id)", "`id`", "x;import os", "x:import os", "x\nimport os", "x)", "x#", "%s",
    "{x}", "../x", "..", ".", "/etc/x", "a/b", "a\\b", "C:\\x", "~", "~root", "file:///x", "x.yaml", "x.y",
    "-x", "--out", "1x", "_x", "__import__", "__class__", "x-y", "X", "Decode",
    # Full-width x, Cyrillic a, combining acute, ligature fi, zero-width space, right-to-left override,
    # long s, micro sign, superscript and Arabic digits.
    "\uff58", "\u0430bc", "e\u0301x", "\ufb01", "x\u200b", "x\u202e", "\u017f", "\u00b5", "x\u00b2",
    "x\u0661",
]  # fmt: skip
STRING_FIELDS = [
    "name: example_h64",
    "family: sparse_mla_decode",
    "backend: tilelang",
    "target: sm_120a",
    "layout: v4",
    "q: bfloat16",
    "cache: float8_e4m3fn",
    "out: bfloat16",
    "lse: float32",
    "split: waves",
    "sink: output",
    "lse_base: e",
    "lse_empty: +inf",
    "combine: kernel",
]


def yaml_string(text: str) -> str:
    """`text` as a double-quoted YAML scalar in ASCII."""
    return '"' + "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in text) + '"'


@pytest.mark.parametrize("field", STRING_FIELDS)
def test_attacks_are_refused(valid, load_text, field):
    key = field.split(":")[0]
    for attack in ATTACKS:
        assert valid.count(field) == 1
        with pytest.raises(SpecError) as caught:
            load_text(valid.replace(field, f"{key}: {yaml_string(attack)}"))
        assert caught.value.field.split(".")[-1] == key
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("field", STRING_FIELDS)
def test_valid_value_with_a_tail_is_refused(valid, load_text, field):
    key, value = field.split(": ")
    for tail in ("\n", " ", "\0", "\u200b", ";", "'", '"'):
        with pytest.raises(SpecError):
            load_text(valid.replace(field, f"{key}: {yaml_string(value + tail)}"))


def test_attacks_as_keys_are_refused(valid, load_text):
    for attack in ATTACKS:
        for before in ("layout: v4", "  lengths: true"):
            indent = " " * (len(before) - len(before.lstrip()))
            with pytest.raises(SpecError):
                load_text(valid.replace(before, f"{before}\n{indent}{yaml_string(attack)}: 1"))


def test_names_that_hide_words_of_python_are_refused(valid, load_text):
    words = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "torch", "tilelang", "numpy"}
    for word in words:
        with pytest.raises(SpecError) as caught:
            load_text(valid.replace("example_h64", f'"{word}"'))
        best = caught.value.fix.removeprefix("use ")
        assert load_text(valid.replace("example_h64", best)).name == best


def test_length_of_a_name(valid, load_text):
    assert load_text(valid.replace("example_h64", "x" * 64)).name == "x" * 64
    with pytest.raises(SpecError, match="is not a name"):
        load_text(valid.replace("example_h64", "x" * 65))


def test_words_of_the_models_are_safe_in_source():
    choices = [Choice]
    while choices:
        choice = choices.pop()
        choices += choice.__subclasses__()
        for member in choice:
            assert str(member) == f"{member}" == member.value
            assert member.value.replace("_", "").isalnum()
            assert member.value.isascii()
    assert {str(value) for value in LseEmpty} == {"plus_inf", "minus_inf", "minus_1e30"}
    assert {str(value) for value in LseBase} == {"e", "2"}
    assert {str(value) for value in Layout} == {"v4", "v32"}


def test_families_come_from_the_package_alone():
    assert "sparse_mla_decode" in families.names()
    for name in ("os", "sparse_mla_decode.spec", "..spec", ""):
        with pytest.raises(KeyError):
            families.module(name)
