"""Every spec, shipped or for tests only, has every property: `--on` the interpreter or a card."""

from pathlib import Path

import pytest
from hypothesis import given
from specs_under_test import SPECS

from gen import families
from gen.check.strategies import cases
from gen.plan import SHARED_BYTES_PER_BLOCK
from gen.spec import load

BY_NAME = pytest.mark.parametrize("path", SPECS, ids=lambda path: load(path).name)


def _must_test() -> list:
    return [
        pytest.param(path, name, id=f"{spec.name}-{name}")
        for path in SPECS
        for spec in [load(path)]
        for name in families.module(spec.family).must_test(spec)
    ]


@pytest.mark.parametrize(("path", "name"), _must_test())
def test_must_test_cases(checked, path: Path, name: str):
    spec = load(path)
    checked(path, families.module(spec.family).must_test(spec)[name])


@BY_NAME
def test_drawn_cases(checked, path: Path):
    spec = load(path)

    @given(cases(spec, families.module(spec.family)))
    def run(case):
        checked(path, case)

    run()


@BY_NAME
def test_no_spill_and_within_shared_memory(operation, path: Path):
    tested = operation(path)
    planned = tested.family.plan(tested.spec)
    assert list(tested.compiled.kernels) == list(planned.kernels)
    for kernel in tested.compiled.kernels.values():
        assert kernel.spill_store_bytes == kernel.spill_load_bytes == kernel.stack_bytes == 0
        assert kernel.shared_bytes <= planned.shared_bytes <= SHARED_BYTES_PER_BLOCK
        assert kernel.registers <= 255


@BY_NAME
def test_tensor_core_instructions_are_those_the_spec_asks_for(operation, path: Path):
    """In the machine code, not only in the source: block scaling where the plan says so."""
    tested = operation(path)
    found = {name for kernel in tested.compiled.kernels.values() for name in kernel.mma}
    wanted = tested.family.plan(tested.spec).mma
    assert found == {wanted} if wanted else found
