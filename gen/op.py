"""A spec as a Python callable: CUDA tensors run the compiled kernel, CPU tensors the interpreter."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from gen import device as devices
from gen import families
from gen.check.case import Inputs
from gen.compile import Compiled, compile_source
from gen.compile.store import default_cache
from gen.plan import LaunchPlan, Scratch
from gen.render import SOURCE, render, write
from gen.run import Executor, run
from gen.spec import KernelSpec, load, load_many


class Op:
    """A kernel that Python calls; made by `gen.load`.

    The call's arguments are those of the family, `op.signature`, by position or name, and `out=` and the like
    for outputs to write; it returns the outputs as a tuple. It compiles at the first call, and shows that.
    """

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self._family = families.module(spec.family)
        self._compiled: dict[str, Compiled] = {}
        self._interpreter: Executor | None = None
        self._cards: dict[int, tuple[Executor, devices.Device]] = {}

    @property
    def signature(self) -> dict[str, str]:
        """The arguments in order, each with its type, shape and meaning."""
        known: dict[str, str] = self._family.signature(self.spec)
        return known

    @cached_property
    def source(self) -> str:
        """The generated source."""
        return render(self.spec, self._family.plan(self.spec)).files[SOURCE]

    def plan(self, device: str = devices.DEFAULT, **sizes: int) -> LaunchPlan:
        """The launches for run-time sizes on a card of `gen/devices/`. Raises KeyError for an unknown one."""
        plan: LaunchPlan = self._family.launch_plan(self.spec, sizes, devices.load(device))
        return plan

    def reference(self, *args: object, **kwargs: object) -> tuple[torch.Tensor, ...]:
        """The outputs in fp64 by plain PyTorch on the CPU, for the arguments of a call."""
        inputs = self._bound(args, kwargs)
        inputs = inputs.with_tensors({}, **{name: t.cpu() for name, t in inputs.tensors.items()})
        results = self._family.reference(self.spec, inputs)
        return tuple(results[name] for name in self._family.outputs(self.spec, inputs))

    def __call__(self, *args: object, **kwargs: object) -> tuple[torch.Tensor, ...]:
        """Run the kernel. Raises TypeError or ValueError before any launch where an argument does not fit."""
        names = self._family.OUTPUTS
        given = {name: kwargs.pop(name) for name in names if name in kwargs}
        inputs = self._bound(args, kwargs)
        where = next(iter(inputs.tensors.values())).device
        outputs = {
            name: _output(name, given.get(name), buffer, where)
            for name, buffer in self._family.outputs(self.spec, inputs).items()
        }
        executor, compiled, card = self._on(where)
        plan = self._family.launch_plan(self.spec, inputs.sizes, card)
        scratch = {name: _made(buffer, where) for name, buffer in plan.scratch.items()}
        run(executor, compiled, plan, self._family.arguments(self.spec, inputs), outputs, scratch)
        return tuple(outputs.values())

    def _bound(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Inputs:
        names = list(self.signature)
        if len(args) > len(names):
            raise TypeError(
                f"{self.spec.name} takes {len(names)} arguments ({', '.join(names)}), not {len(args)}"
            )
        by_name = dict(zip(names, args, strict=False))
        twice = by_name.keys() & kwargs.keys()
        if twice:
            raise TypeError(f"{self.spec.name} got {', '.join(sorted(twice))} twice")
        inputs: Inputs = self._family.bind(self.spec, {**by_name, **kwargs})
        return inputs

    def _on(self, where: torch.device) -> tuple[Executor, Compiled, devices.Device]:
        """What executes on a device, the kernels compiled for it, and its limits."""
        if where.type == "cpu":
            from gen.run.interpreter import Interpreter

            self._interpreter = self._interpreter or Interpreter()
            return self._interpreter, self._compile(str(self.spec.target)), devices.load(devices.DEFAULT)
        if where.type != "cuda":
            raise ValueError(f"tensors on {where} cannot be used; move them to a CUDA card or to the CPU")
        from gen.run.cuda import Cuda

        index = where.index or 0
        if index not in self._cards:
            cuda = Cuda(index, wait=False)
            self._cards[index] = cuda, cuda.describe()
        executor, card = self._cards[index]
        return executor, self._compile(card.arch), card

    def _compile(self, arch: str) -> Compiled:
        if arch not in self._compiled:
            folder = default_cache() / "sources" / f"{self.spec.name}-{self.spec.digest[:16]}"
            write({SOURCE: self.source}, folder)
            with Console(stderr=True).status(f"compiling {self.spec.name} for {arch}"):
                self._compiled[arch] = compile_source(
                    folder / SOURCE, backend=str(self.spec.backend), arch=arch
                )
        return self._compiled[arch]


def _made(buffer: Scratch, where: torch.device) -> torch.Tensor:
    make = torch.zeros if buffer.zeroed else torch.empty
    return make(buffer.shape, dtype=getattr(torch, buffer.dtype), device=where)


def _output(name: str, given: Any, buffer: Scratch, where: torch.device) -> torch.Tensor:
    if given is None:
        return _made(buffer, where)
    dtype = getattr(torch, buffer.dtype)
    if not isinstance(given, torch.Tensor) or given.dtype != dtype:
        raise TypeError(f"{name}: a {dtype} tensor is needed")
    if tuple(given.shape) != buffer.shape or not given.is_contiguous() or given.device != where:
        raise ValueError(f"{name}: a contiguous tensor of shape {list(buffer.shape)} on {where} is needed")
    return given


def find(name: str | Path) -> Op:
    """The operation of a spec file, or of a spec by name below `specs/`. Raises SpecError or KeyError."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return Op(load(path))
    folders = [Path("specs"), Path(__file__).resolve().parents[1] / "specs"]
    specs = load_many([folder for folder in folders if folder.is_dir()][:1])
    for spec in specs:
        if spec.name == name:
            return Op(spec)
    raise KeyError(f"no spec is named {name}; there are {', '.join(spec.name for spec in specs)}")
