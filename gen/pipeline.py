"""The stages in their order, for the command line and for tests: load, plan, render, write, compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from gen import families
from gen.compile import Compiled, CompileError, Kernel, compile_many, compile_source, find_compiled
from gen.plan import SHARED_BYTES_PER_BLOCK, TilePlan
from gen.render import SOURCE, Rendered, render, write
from gen.spec import KernelSpec, load_many


@dataclass(frozen=True)
class Prepared:
    """A spec with what follows from it before any compiler runs."""

    spec: KernelSpec
    plan: TilePlan
    rendered: Rendered

    @property
    def family(self) -> ModuleType:
        """The module of the spec's family."""
        return families.module(self.spec.family)

    def source(self, build: Path) -> Path:
        """Where the generated source lies below the folder of all kernels."""
        return build / self.spec.name / SOURCE

    def instructions(self) -> tuple[str, ...] | None:
        """Tensor-core instructions of its kernels for its target; None where they are not compiled yet."""
        spec = self.spec
        found = find_compiled(self.rendered.files[SOURCE], backend=str(spec.backend), arch=str(spec.target))
        if found is None:
            return None
        return tuple(sorted({name for kernel in found.kernels.values() for name in kernel.mma}))

    def missing_on(self, arch: str) -> str | None:
        """Why the kernels cannot run on an architecture; None where they can."""
        if not self.plan.archs or arch in self.plan.archs:
            return None
        return f"its instructions need {' or '.join(self.plan.archs)}, not {arch}"

    def is_current(self, build: Path) -> bool | None:
        """Whether the files below `build` are those of this spec; None where there are none."""
        folder = build / self.spec.name
        if not folder.is_dir():
            return None
        return all(
            (folder / name).is_file() and (folder / name).read_bytes() == text.encode()
            for name, text in self.rendered.files.items()
        )


def prepare(paths: Sequence[Path]) -> list[Prepared]:
    """Load, plan and render. Raises SpecError for the first spec that cannot work; nothing is written."""
    prepared = []
    for spec in load_many(paths):
        plan = families.module(spec.family).plan(spec)
        prepared.append(Prepared(spec, plan, render(spec, plan)))
    return prepared


def build(
    prepared: Sequence[Prepared],
    folder: Path,
    *,
    arch: str | None = None,
    on_done: Callable[[Prepared, Compiled | CompileError], None],
) -> None:
    """Write the sources below `folder` and compile them in parallel; `on_done` gets each result."""
    for item in prepared:
        write(item.rendered.files, folder / item.spec.name)
    kinds = {(arch or str(item.spec.target), str(item.spec.backend)) for item in prepared}
    for target, backend in sorted(kinds):
        items = {
            item.source(folder).resolve(): item
            for item in prepared
            if (arch or str(item.spec.target), str(item.spec.backend)) == (target, backend)
        }

        def done(
            path: Path,
            result: Compiled | CompileError,
            items: dict[Path, Prepared] = items,
        ) -> None:
            on_done(items[path.resolve()], result)

        compile_many(list(items), arch=target, backend=backend, on_done=done)


def compile_prepared(item: Prepared, folder: Path) -> Compiled:
    """Write and compile one spec. Raises CompileError."""
    write(item.rendered.files, folder / item.spec.name)
    return compile_source(item.source(folder), backend=str(item.spec.backend), arch=str(item.spec.target))


def limits_exceeded(kernel: Kernel) -> list[str]:
    """What a compiled kernel may not do: spill, or take more shared memory than a block has."""
    faults = []
    if kernel.spill_store_bytes or kernel.spill_load_bytes:
        faults.append(
            f"{kernel.name} spills {kernel.spill_store_bytes + kernel.spill_load_bytes} B of registers"
        )
    if kernel.shared_bytes > SHARED_BYTES_PER_BLOCK:
        faults.append(
            f"{kernel.name} takes {kernel.shared_bytes:,} B of shared memory, over {SHARED_BYTES_PER_BLOCK:,}"
        )
    return faults
