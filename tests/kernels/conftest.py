"""Compiled operations for the property tests."""

from collections.abc import Callable
from pathlib import Path

import jinja2
import pytest

from gen import device, families
from gen.check.properties import Operation
from gen.compile import compile_source
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
            compiled = compile_source(where / "kernel.py", arch=str(spec.target))
            made[path, edits] = Operation(spec, compiled, Interpreter(), device.load(device.DEFAULT))
        return made[path, edits]

    return make
