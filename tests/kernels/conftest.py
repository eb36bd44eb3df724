"""Compiled operations for the property tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import jinja2
import pytest
from specs_under_test import SPECS

from gen import device, families
from gen.check.case import Case
from gen.check.on_cuda import card_arch
from gen.check.properties import Operation, check
from gen.compile import compile_source
from gen.pack.worker import Worker
from gen.pack.write import write_pack
from gen.pipeline import build, prepare
from gen.render import render, template_folder, write
from gen.run.interpreter import Interpreter
from gen.spec import load

Edit = tuple[str, str]


@pytest.fixture(scope="session")
def operation(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Operation]:
    """`operation(path, *edits)`: a spec compiled, each edit replacing text of its template."""
    folder = tmp_path_factory.mktemp("build")
    made: dict[tuple[Path, tuple[Edit, ...]], Operation] = {}

    def make(path: Path, *edits: Edit) -> Operation:
        if (path, edits) not in made:
            spec = load(path)
            plan = families.module(spec.family).plan(spec)
            text = (template_folder() / str(spec.backend) / plan.template).read_text()
            for old, new in edits:
                assert old in text, f"the template no longer has {old!r}"
                text = text.replace(old, new)
            rendered = render(spec, plan, templates=jinja2.DictLoader({plan.template: text}))
            where = folder / f"{spec.name}_{len(made)}"
            write(rendered.files, where)
            compiled = compile_source(where / "kernel.py", backend=str(spec.backend), arch=str(spec.target))
            made[path, edits] = Operation(spec, compiled, Interpreter(), device.load(device.DEFAULT))
        return made[path, edits]

    return make


@pytest.fixture(scope="session")
def checked(
    request: pytest.FixtureRequest,
    operation: Callable[..., Operation],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[Path, Case], None]]:
    """`checked(path, case)`: every property of a case of a spec, where --on says."""
    if request.config.getoption("--on") == "interpreter":
        yield lambda path, case: check(operation(path), case) and None
        return
    folder, built = tmp_path_factory.mktemp("pack"), []
    arch, every = card_arch(), prepare(SPECS)
    missing = {item.spec.path: reason for item in every if (reason := item.missing_on(arch))}
    runnable = [item for item in every if item.spec.path not in missing]
    build(runnable, folder / "sources", arch=arch, on_done=lambda *pair: built.append(pair))
    write_pack(built, folder, examples=0, seed=0)
    worker = Worker(folder)

    def on_card(path: Path, case: Case) -> None:
        if path in missing:
            pytest.skip(missing[path])
        failure = worker.check(load(path).name, case)["failure"]
        assert not failure, failure

    yield on_card
    worker.stop()
