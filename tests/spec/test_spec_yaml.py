"""What is not the YAML of a spec is refused, with its line, before any model sees it."""

import math
import os
import time
from pathlib import Path

import pytest

from gen.spec import SpecError, load, load_many
from gen.spec.yaml import MAX_BYTES, parse

HERE = Path("x.yaml")
BOMB = "a: &a [x, x, x]\n" + "\n".join(f"k{i}: &k{i} [*a, *a, *a]" for i in range(30))

# content, line, part of the reason
REFUSED = [
    (b"a: [1, 2", 1, "not valid YAML"),
    (b"a: 1\n b: 2", 2, "not valid YAML"),
    (b"a: 1\nb: c: d", 2, "not valid YAML"),
    (b"a: 'open", 1, "not valid YAML"),
    (b'a: "\\U00110000"', None, "not valid YAML"),
    (b"a: \xff", 1, "0xff is not UTF-8"),
    (b"a: 1\nb: caf\xe9", 2, "0xe9 is not UTF-8"),
    (b"a: 1\n\tb: 2", 2, "a tab"),
    (b"a: 1\nb: \x00", 2, "U+0000"),
    (b"a: \x1b[31m", 1, "U+001B"),
    ("a: \u2028b".encode(), 1, "U+2028"),
    (b"a: 1\nb: 2\na: 3", 3, "already on line 1"),
    (b"a: 1\nb: {c: 1, c: 2}", 2, "already on line 2"),
    (b"a: &x 1", 1, "anchor or alias 'x'"),
    (b"a: 1\nb: *x", 2, "anchor or alias 'x'"),
    (BOMB.encode(), 1, "anchor or alias 'a'"),
    (b"a: 1\n<<: {b: 1}", 2, "merge key"),
    (b"a: !!python/object/apply:os.system [id]", 1, "tag 'tag:yaml.org,2002:python/object/apply:os.system'"),
    (b"a: !!int '3'", 1, "tag"),
    (b"a: !secret 3", 1, "tag '!secret'"),
    (b"a: 1\n---\nb: 2", 2, "second YAML document"),
    (b"%YAML 1.1\n---\na: yes", 2, "directive"),
    (b"%TAG ! tag:yaml.org,2002:\n---\na: 1", 2, "directive"),
    (b"1: a", 1, "the key 1 is not a name"),
    (b"a: 1\ntrue: b", 2, "the key true is not a name"),
    (b": a", 1, "the key null is not a name"),
    (b"? [a]\n: b", 1, "a key is a mapping or a list"),
    (b"? {a: b}\n: b", 1, "a key is a mapping or a list"),
    (b"a: " + b"[" * 100, 1, "nested more than 16 deep"),
    (b"[" * 500_000, 1, "nested more than 16 deep"),
    (b"{a: " * 200_000, 1, "nested more than 16 deep"),
    (b"- " * 500_000, 1, "nested more than 16 deep"),
    (b"- 1\n" * 20_000, 9_998, "more than 10000 values"),
    (b"a: " + b"x" * 1_001, 1, "a value of 1001 characters"),
    (b"#" * (MAX_BYTES + 1), None, "larger than 1048576 bytes"),
]


@pytest.mark.parametrize(("content", "line", "reason"), REFUSED, ids=[str(row[0][:30]) for row in REFUSED])
def test_refused(content, line, reason):
    start = time.monotonic()
    with pytest.raises(SpecError) as caught:
        parse(content, HERE)
    assert caught.value.line == line
    assert reason in caught.value.reason
    assert caught.value.fix
    assert "\n" not in str(caught.value)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    "content", [b"", b"# only a comment\n", b"3", b"[a, b]", b"name", b"~", b"---\n...\n"]
)
def test_not_a_mapping(load_text, content):
    with pytest.raises(
        SpecError, match=r"x\.yaml:\d: (the file is empty|.* is not a mapping); start with 'name:'"
    ):
        load_text(content)


def test_core_schema_and_lines():
    text = "a: 1\nb:\n  - {c: -2, d: +inf}\n  - .5\ne: [yes, no, '3', 0o7, 1_0, 1e3, -.inf, ~, True]\nf: {}\n"
    document = parse(text.encode(), HERE)
    assert document.value == {
        "a": 1,
        "b": [{"c": -2, "d": "+inf"}, 0.5],
        "e": ["yes", "no", "3", "0o7", "1_0", 1000.0, -math.inf, None, True],
        "f": {},
    }
    assert document.line(("b", 0, "d")) == 3
    assert document.line(("b", 1)) == 4
    assert document.line(("e", 99)) == 5
    assert document.line(("absent", "too")) == 1
    assert str(document.error(("b", 0, "c"), "r", "f")) == "x.yaml:3: b[0].c: r; f."


def test_byte_order_mark_and_windows_line_ends(valid, load_text):
    windows = b"\xef\xbb\xbf" + valid.replace("\n", "\r\n").encode()
    assert load_text(windows).digest == load_text(valid).digest
    with pytest.raises(SpecError) as caught:
        load_text(windows.replace(b"v4\r", b"v5\r"))
    assert valid.splitlines()[caught.value.line - 1] == "layout: v4"


def test_ten_megabytes_are_not_read(tmp_path):
    path = tmp_path / "large.yaml"
    path.write_bytes(b"a: 1\n" * 2_000_000)
    start = time.monotonic()
    with pytest.raises(SpecError, match="larger than 1048576 bytes"):
        load(path)
    assert time.monotonic() - start < 0.5


def test_paths_that_hold_no_spec(tmp_path):
    fifo = tmp_path / "fifo.yaml"
    os.mkfifo(fifo)
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    (tmp_path / "empty").mkdir()
    missing = (tmp_path / "missing.yaml", fifo, loop, Path("x" * 5_000), Path("a\0b"), Path("/dev/zero"))
    for path in missing:
        with pytest.raises(SpecError, match=r"no such regular file|cannot be read"):
            load(path)
        with pytest.raises(SpecError, match=r"no such regular file|cannot be read"):
            load_many([path])
    with pytest.raises(SpecError, match="this is a folder"):
        load(tmp_path)
    with pytest.raises(SpecError, match=r"holds no \.yaml file"):
        load_many([tmp_path / "empty"])
