"""Whatever the bytes, loading returns a spec or raises `SpecError`."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gen.spec import KernelSpec, SpecError
from gen.spec.load import validate
from gen.spec.yaml import Document, parse

VALID = Path(__file__).with_name("valid.yaml").read_bytes()
VALUE = parse(VALID, Path("x.yaml")).value
PATHS = [(key,) for key in VALUE] + [(k, j) for k, v in VALUE.items() if isinstance(v, dict) for j in v]
PIECES = [
    b"{", b"}", b"[", b"]", b": ", b"- ", b"? ", b"&a ", b"*a", b"!!int ", b"|\n", b">\n", b"'", b'"', b"\\",
    b"#", b",", b"---\n", b"...\n", b"%YAML 1.2\n", b"\n", b"  ", b"\r", b"\xff", b"\x00", b"\xef\xbb\xbf",
    b"<<: ", b"~", b"9" * 60, b"-1", b"1e999", b".inf", b"true", b"\\uD800", b"\\U00110000", b"@", b"`",
    b"!<", b"%", b"=", b"2001-01-01", b"0b1",
]  # fmt: skip

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["waves", "none", "e", "2", "v4", 2, 16, 64, 10**400, 2**31, -(2**63)])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["min", "max", "fixed", "heads"]) | st.text(max_size=5), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def check(outcome: KernelSpec | SpecError, fragment_limit: int = 700) -> None:
    """A spec with a digest, or an error that is one short printable paragraph."""
    if isinstance(outcome, KernelSpec):
        assert len(outcome.digest) == 64
        return
    assert outcome.reason
    assert outcome.fix
    assert str(outcome).isprintable()
    assert len(str(outcome)) < fragment_limit


def load_bytes(data: bytes) -> KernelSpec | SpecError:
    try:
        return validate(parse(data, Path("x.yaml")))
    except SpecError as error:
        return error


def load_value(value: object) -> KernelSpec | SpecError:
    try:
        return validate(Document(Path("x.yaml"), value, {}))
    except SpecError as error:
        return error


@given(st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_random_bytes(data):
    check(load_bytes(data))


@given(st.lists(st.sampled_from(PIECES), max_size=20))
@settings(max_examples=200, deadline=None)
def test_random_syntax(pieces):
    check(load_bytes(b"".join(pieces)))


@given(
    st.lists(st.tuples(st.integers(0, len(VALID)), st.integers(0, 4), st.sampled_from(PIECES)), max_size=3)
)
@settings(max_examples=120, deadline=None)
def test_garbled_text(edits):
    data = VALID
    for start, length, piece in edits:
        data = data[:start] + piece + data[start + length :]
    check(load_bytes(data))


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_keys_removed_added_and_values_changed(data):
    value = {key: dict(inner) if isinstance(inner, dict) else inner for key, inner in VALUE.items()}
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(PATHS))
        holder = value if len(path) == 1 else value.get(path[0])
        if not isinstance(holder, dict):
            continue
        action = data.draw(st.sampled_from(["remove", "replace", "add"]))
        if action == "remove":
            holder.pop(path[-1], None)
        elif action == "replace":
            holder[path[-1]] = data.draw(values)
        else:
            holder[data.draw(st.text(max_size=8))] = data.draw(values)
    check(load_value(value))


@given(
    tokens=st.tuples(st.integers(1, 600), st.integers(0, 600)),
    heads=st.integers(1, 16),
    page=st.integers(1, 65_536),
    width=st.integers(0, 1 << 20),
    base=st.sampled_from(["e", 2, "2"]),
)
@settings(max_examples=50, deadline=None)
def test_every_size_in_range_is_accepted(tokens, heads, page, width, base):
    low, more = tokens
    shapes = {
        "tokens": {"min": low, "max": low + more},
        "heads": heads * 8,
        "main_page": page,
        "main_width": width,
    }
    value = {**VALUE, "shapes": shapes, "tile": {**VALUE["tile"], "heads": 16}}
    value["features"] = {**VALUE["features"], "lse_base": base}
    assert isinstance(load_value(value), KernelSpec)
