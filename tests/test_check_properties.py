"""Each property catches what it is for: a right executor passes, and one wrong in one way does not."""

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from gen import device
from gen.check.case import Case, Inputs
from gen.check.fuzz import fuzz
from gen.check.properties import GUARD_BYTES, Operation, PropertyError, check
from gen.compile import Compiled, Kernel, Parameter
from gen.families import sparse_mla_decode as family
from gen.plan import SHARED_BYTES_PER_BLOCK
from gen.run import RunError
from gen.spec import load

SPECS = Path(__file__).parents[1] / "specs"
SHIPPED = [path for path in sorted(SPECS.rglob("*.yaml")) if load(path).family == "sparse_mla_decode"]
H16 = load(SPECS / "deepseek_v4_flash/decode_h16.yaml")
CARD = device.load("rtx_pro_6000")

Arguments = Mapping[str, torch.Tensor]
Fault = Callable[[Arguments, int], None]


@dataclass
class Oracle:
    """Computes what the kernels of a spec should, from their arguments; `fault` then does its damage.

    `fault` gets the arguments and the number of the operation, from 1.
    """

    spec: object
    fault: Fault = lambda arguments, operation: None
    missing: int = 0
    operations: int = 0

    def begin(self):
        self.operations += 1

    def launch(self, kernel, launch, arguments, written, undefined):
        if kernel.name == "nothing":
            return
        sizes = {name: arguments[name] for name in family.fuzz_sizes(self.spec)}
        inputs = Inputs(sizes, dict(arguments), arguments["scale_log2"] / math.log2(math.e))
        want = family.reference(self.spec, inputs, torch.bfloat16)
        arguments["out"].copy_(want["out"])
        arguments["lse"].copy_(want["lse"])
        self.fault(arguments, self.operations)

    def place(self, tensor):
        return tensor

    def unwritten(self, array):
        return self.missing


@dataclass
class _EveryName:
    """Stands for a compiled kernel that declares all of its operation's arguments."""

    parameters: tuple[Parameter, ...]
    name: str


def _operation(spec, fault: Fault | None = None, missing: int = 0) -> Operation:
    case = next(iter(family.must_test(spec).values()))
    inputs = family.make_inputs(spec, case)
    plan = family.launch_plan(spec, inputs.sizes, CARD)
    names = [*family.arguments(spec, inputs), *plan.scalars, *plan.scratch, "out", "lse"]
    parameters = tuple(Parameter(name, "pointer") for name in names)
    kernels = {launch.kernel: _EveryName(parameters, "nothing") for launch in plan.launches}
    kernels[plan.launches[-1].kernel] = _EveryName(parameters, "all")
    oracle = Oracle(spec, missing=missing) if fault is None else Oracle(spec, fault, missing)
    return Operation(spec, Compiled(kernels, "sm_120a", 0.0, True), oracle, CARD)


def _case(relation: str = "none", **knobs) -> Case:
    case = family.must_test(H16)["exact" if knobs.get("values") == "exact" else "length_random"]
    return replace(case, knobs={**case.knobs, "relation": relation, **knobs})


def _ulp(values: torch.Tensor) -> None:
    """Move the first element to the next bf16."""
    values.view(torch.int16).flatten()[0] += 1


def _beyond(values: torch.Tensor, by: int) -> torch.Tensor:
    """The element `by` places from the first of `values`, in the buffer around it."""
    return values.as_strided((1,), (1,), values.storage_offset() + by)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_right_executor_passes_every_must_test_case(path):
    spec = load(path)
    operation = _operation(spec)
    for name, case in family.must_test(spec).items():
        if name != "far_pages":  # two gigabytes for the gather alone
            distances = check(operation, case)
            assert distances["lse"].absolute < 1e-4 * 2e30


@pytest.mark.parametrize("relation", family.RELATIONS)
def test_a_right_executor_has_every_relation(relation):
    operation = _operation(H16)
    check(operation, _case(relation))
    assert operation.executor.operations == 2


def _change(name: str, change: Callable[[torch.Tensor], object], when: int = 0) -> Fault:
    def fault(arguments: Arguments, operation: int) -> None:
        if when in (0, operation):
            change(arguments[name])

    return fault


FAULTS = {
    "below the output": (_change("out", lambda t: _beyond(t, -1).zero_()), {}, "out: elements beyond"),
    "above the output": (
        _change("lse", lambda t: _beyond(t, t.numel()).zero_()), {}, "lse: elements beyond its ends",
    ),
    "far end of the guard": (
        _change("out", lambda t: _beyond(t, -GUARD_BYTES // 2).zero_()), {}, "out: elements beyond",
    ),
    "beyond scratch": (
        _change("partial_sum", lambda t: _beyond(t, -1).zero_()), {}, "partial_sum: elements beyond its ends",
    ),
    "scratch left": (_change("arrivals", lambda t: t.fill_(1)), {}, "arrivals: is not zero again"),
    "query changed": (_change("q", lambda t: _ulp(t)), {}, "q: the input changed"),
    "cache changed": (_change("main_cache", lambda t: t[0, 0].fill_(7)), {}, "main_cache: the input changed"),
    "padding read": (_change("out", lambda t: t[0, 0, 0].fill_(math.nan)), {}, "out[0, 0, 0]: got"),
    "one element off": (_change("out", lambda t: t[-1, -1, -1].add_(0.05)), {}, "out[1, 15, 511]: got"),
    "lse off": (_change("lse", lambda t: t.flatten()[3].add_(0.01)), {}, "lse[0, 3]: got"),
    "small drift everywhere": (_change("out", lambda t: t.mul_(1.012)), {}, "rms error"),
    "rotated by a little": (_change("out", lambda t: t.add_(9e-4)), {}, "out: 1 - cos is"),
    "exact case off by one": (_change("out", _ulp), {"values": "exact"}, "bit for bit"),
    "not the same again": (_change("out", _ulp, when=2), {"relation": "rerun"}, "rerun: out differs"),
    "lse not the same again": (
        _change("lse", lambda t: t.view(torch.int32).flatten()[0].add_(1), when=2),
        {"relation": "rerun"},
        "rerun: lse differs",
    ),
    **{
        f"{relation} violated": (
            _change("out", lambda t: t[-1].add_(0.05), when=2), {"relation": relation}, f"{relation}: out[",
        )
        for relation in family.RELATIONS
        if relation != "rerun"
    },
    "fault of the second launch": (
        _change("q", lambda t: _ulp(t), when=2), {"relation": "permute_keys"}, "permute_keys: q: the",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_executor_is_caught(name):
    fault, knobs, symptom = FAULTS[name]
    case = _case(**knobs)
    check(_operation(H16), case)
    with pytest.raises(PropertyError) as caught:
        check(_operation(H16, fault), case)
    assert any(text.startswith(symptom) or symptom in text for text in caught.value.faults), (
        caught.value.faults
    )
    assert "\n" not in str(caught.value)


def test_an_output_that_nothing_wrote_is_caught():
    with pytest.raises(PropertyError, match=r"out: 3 of \d+ elements were never written"):
        check(_operation(H16, missing=3), _case())


def test_a_fault_of_the_executor_is_reported_with_its_text():
    def fault(arguments: Arguments, operation: int) -> None:
        raise RunError("data race at PTX line 5")

    with pytest.raises(PropertyError, match="data race at PTX line 5"):
        check(_operation(H16, fault), _case())


def test_unwritten_outputs_start_as_nan():
    seen = []
    check(_operation(H16, lambda arguments, _: seen.append(arguments["partial_sum"].isnan().all())), _case())
    assert seen == [True]


def test_the_replay_command_names_the_spec_the_card_and_the_case(tmp_path):
    path = tmp_path / "it's a spec.yaml"
    path.write_bytes((SPECS / "deepseek_v4_flash/decode_h16.yaml").read_bytes())
    operation = _operation(load(path), _change("out", lambda t: t.zero_()))
    for card, extra in ((CARD, []), (device.load("dgx_spark"), ["--device", "dgx_spark"])):
        with pytest.raises(PropertyError) as caught:
            check(replace(operation, device=card), _case("rerun"))
        words = shlex.split(str(caught.value).partition("Replay: ")[2])
        assert words[:-1] == ["kgen", "fuzz", str(path), *extra, "--case"]
        assert Case.from_json(words[-1]) == _case("rerun")


def test_fuzz_runs_must_test_cases_and_drawn_ones():
    ticks, must = [], len(family.must_test(H16)) - 1
    with pytest.MonkeyPatch.context() as patch:
        known = family.must_test(H16)
        patch.setattr(family, "must_test", lambda spec: {k: v for k, v in known.items() if k != "far_pages"})
        report = fuzz(_operation(H16), examples=5, on_example=lambda: ticks.append(1))
    assert report.failure is None
    assert report.examples == len(ticks) == must + 5
    assert 0 < report.worst["out"] < 1e-3
    assert report.seconds > 0


def _drawn(seed: int) -> list[str]:
    """The cases that the fuzzer draws for a seed."""
    seen: list[str] = []
    original = family.make_inputs

    def noting(spec, case):
        seen.append(case.to_json())
        return original(spec, case)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(family, "make_inputs", noting)
        assert fuzz(_operation(H16), examples=4, seed=seed, must_test=False).examples == 4
    return seen[1:]  # the first is the one that made the operation


def test_a_seed_draws_the_same_cases():
    assert _drawn(3) == _drawn(3) != _drawn(4)


def test_fuzz_stops_at_the_first_failure_and_shrinks_it():
    def fault(arguments: Arguments, operation: int) -> None:
        if arguments["extra_width"] >= 5:
            arguments["out"].fill_(5)

    first = fuzz(_operation(H16, fault), examples=30, must_test=False)
    small = fuzz(_operation(H16, fault), examples=30, must_test=False, shrink=True)
    assert first.examples < 30
    assert first.failure is not None
    assert small.failure is not None
    assert small.failure.case.sizes["extra_width"] == 5
    assert small.failure.case.sizes["tokens"] == 1


def test_limits_of_a_compiled_kernel():
    from gen.pipeline import limits_exceeded

    fine = Kernel(
        "decode", "e", "sm_120a", "", "", b"", (), 256, 255, 16, SHARED_BYTES_PER_BLOCK - 16, 0, 0, 0
    )
    assert limits_exceeded(fine) == []
    (fault,) = limits_exceeded(replace(fine, static_shared_bytes=17))
    assert "101,377 B of shared memory, over 101,376" in fault
    (fault,) = limits_exceeded(replace(fine, spill_load_bytes=8, spill_store_bytes=4))
    assert fault == "decode spills 12 B of registers"
    assert len(limits_exceeded(replace(fine, spill_store_bytes=4))) == 1
