"""A spec as a Python call: right results, outputs in place, and clear errors before any launch."""

from pathlib import Path

import pytest
import torch

import gen
from gen.check.case import Case
from gen.families import sparse_mla_decode as family
from gen.spec import load

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "specs/deepseek_v4_flash/decode_h16.yaml"


@pytest.fixture(scope="module")
def op():
    return gen.load(SPEC)


@pytest.fixture
def arguments():
    spec = load(SPEC)
    knobs = {name: kinds[0] for name, kinds in family.knobs(spec).items()} | {"seed": 3, "indices": "holes"}
    sizes = {"tokens": 2, "main_page": 256, "main_width": 20, "extra_page": 2, "extra_width": 40}
    inputs = family.make_inputs(spec, Case(sizes, knobs))
    return {**inputs.tensors, "extra_page": 2}


def test_call_matches_the_reference(op, arguments):
    out, lse = op(**arguments)
    expected_out, expected_lse = op.reference(**arguments)
    assert out.dtype == torch.bfloat16
    assert out.shape == (2, 16, 512)
    assert lse.dtype == torch.float32
    torch.testing.assert_close(out.double(), expected_out, atol=1e-3, rtol=2.01 / 128)
    torch.testing.assert_close(lse.double(), expected_lse, atol=1e-5, rtol=1e-4)


def test_positions_and_given_outputs(op, arguments):
    out = op(**arguments)[0]
    into = torch.empty_like(out)
    order = [name for name in op.signature if name in arguments and name != "extra_page"]
    again, _ = op(*(arguments[name] for name in order), extra_page=2, out=into)
    assert again is into
    assert torch.equal(into, out)


def test_caches_in_the_shapes_of_engines(op, arguments):
    out, _ = op(**arguments)
    cache = arguments["extra_cache"]
    pages, stride = cache.shape[0], cache.stride(0)
    shaped = cache.as_strided((pages, 2, 1, 584), (stride, 584, 584, 1))
    assert torch.equal(op(**{**arguments, "extra_cache": shaped, "extra_page": None})[0], out)
    whole = cache.as_strided((pages, stride), (stride, 1))  # padding included
    assert torch.equal(op(**{**arguments, "extra_cache": whole})[0], out)


def test_plan_source_and_names(op):
    assert "def decode(" in op.source
    sizes = {"tokens": 1, "main_page": 256, "main_width": 128, "extra_page": 64, "extra_width": 512}
    assert op.plan("rtx_5090", **sizes).launches[0].grid[0] == 1
    assert gen.load("dsv4_flash_decode_h16").spec.digest == op.spec.digest
    with pytest.raises(KeyError, match="no spec is named nothing; there are dsv"):
        gen.load("nothing")


WRONG = {
    "missing": ({"q": None}, TypeError, "needs q"),
    "unknown": ({"key": torch.zeros(1)}, TypeError, "takes no key"),
    "no tensor": ({"q": 3}, TypeError, "q: a tensor is needed, not int"),
    "dtype": ({"q": torch.zeros(2, 16, 512)}, TypeError, "q: .* needs torch.bfloat16, not torch.float32"),
    "heads": (
        {"q": torch.zeros(2, 8, 512, dtype=torch.bfloat16)},
        ValueError,
        r"q: its shape is \[2, 8, 512\]",
    ),
    "stride": (
        {"q": torch.zeros(2, 512, 16, dtype=torch.bfloat16).transpose(1, 2)},
        ValueError,
        "q: it is not contiguous",
    ),
    "tokens disagree": (
        {"main_lengths": torch.zeros(3, dtype=torch.int32)},
        ValueError,
        "main_lengths: its shape",
    ),
    "indices": ({"main_indices": torch.zeros(2, 20)}, TypeError, "main_indices"),
    "device": ({"sink": torch.zeros(16, device="meta")}, ValueError, "sink: it is on meta, q on cpu"),
    "cache bytes": (
        {"main_cache": torch.zeros(1, 256, 583, dtype=torch.uint8)},
        ValueError,
        "has 584 bytes, not 583",
    ),
    "cache dtype": ({"main_cache": torch.zeros(1, 256, 584)}, TypeError, "bytes .uint8. are needed"),
    "short page": ({"main_cache": torch.zeros(1, 584, dtype=torch.uint8)}, ValueError, "takes 149504 bytes"),
    "page stride": (
        {"extra_cache": torch.zeros(4, 1172, dtype=torch.uint8)[:, :1168]},
        ValueError,
        "multiples of 8 bytes",
    ),
    "page unknown": ({"extra_page": None}, TypeError, "extra_page: keys in a page"),
    "page range": (
        {"extra_cache": torch.zeros(1, 65, 584, dtype=torch.uint8), "extra_page": None},
        ValueError,
        "extra_page: 65 is outside what .* allows, 1 to 64",
    ),
    "scale": ({"softmax_scale": "1"}, TypeError, "softmax_scale: a number"),
    "out dtype": ({"out": torch.zeros(2, 16, 512)}, TypeError, "out: a torch.bfloat16 tensor"),
    "out shape": (
        {"out": torch.zeros(2, 16, 511, dtype=torch.bfloat16)},
        ValueError,
        r"shape \[2, 16, 512\]",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(op, arguments, name):
    change, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        op(**{**arguments, **change})


def test_too_many_and_repeated_arguments(op, arguments):
    with pytest.raises(TypeError, match="takes 11 arguments"):
        op(*range(12))
    with pytest.raises(TypeError, match="got q twice"):
        op(arguments["q"], **arguments)
