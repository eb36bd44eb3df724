"""Modules and kernels: the public face of the interpreter."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gen.ptx.arguments import marshal
from gen.ptx.arrays import Array
from gen.ptx.errors import PtxError
from gen.ptx.machine import Machine, Run
from gen.ptx.memory import Allocation, GlobalMemory, Memory
from gen.ptx.parser import parse
from gen.ptx.program import link
from gen.ptx.report import Counters, Report
from gen.ptx.schedule import Scheduler
from gen.ptx.spans import span_of
from gen.ptx.state import State, register_bytes
from gen.ptx.syntax import Variable
from gen.ptx.translate import translate
from gen.ptx.translation import Translation
from gen.ptx.undefined import undefined_reads

Dim3 = tuple[int, int, int]
_SHARED_LIMIT = 232_448  # bytes a block of any card so far may ask for
_GRANULE_SHADOW_BYTES = 12
_FUNCTION_BASE = 1 << 60  # addresses of functions, where no memory is


class Module:
    """A parsed PTX file. `Module(text)["name"]` is an entry, translated and checked at that point."""

    def __init__(self, text: str) -> None:
        self._text = parse(text)
        self._kernels: dict[str, Kernel] = {}
        self._variables: dict[str, Array] = {}
        self.target = self._text.target

    @property
    def entries(self) -> list[str]:
        """Names of the entries, in file order."""
        return [name for name, function in self._text.functions.items() if function.entry]

    def __getitem__(self, name: str) -> Kernel:
        if name not in self._kernels:
            program = link(self._text, name)
            self._kernels[name] = Kernel(translate(program, self._global_addresses()), self)
        return self._kernels[name]

    def _global_addresses(self) -> dict[str, int]:
        """Addresses of .global and .const variables; they live, initialized, as long as the module."""
        if not self._variables:
            variables = [
                v
                for v in (*self._text.variables.values(), *self._nested())
                if v.space in ("global", "const") and not v.external
            ]
            arrays: dict[str, Array] = {}
            for variable in variables:
                storage = np.zeros(variable.size + variable.align, np.uint8)
                start = -storage.ctypes.data % max(variable.align, 1)
                arrays[variable.name] = storage[start : start + variable.size]
            for variable in variables:
                self._initialize(variable, arrays)
            self._variables = arrays
        return {name: int(array.ctypes.data) for name, array in self._variables.items()}

    def _nested(self) -> list[Variable]:
        return [
            v for f in self._text.functions.values() for v in f.variables if v.space in ("global", "const")
        ]

    def _initialize(self, variable: Variable, arrays: dict[str, Array]) -> None:
        functions = list(self._text.functions)
        for i, word in enumerate(variable.words):
            if isinstance(word, str):
                if word in arrays:
                    word = int(arrays[word].ctypes.data)
                elif word in functions:  # nothing can be loaded there, and link() refuses indirect calls
                    word = _FUNCTION_BASE + functions.index(word)
                else:
                    raise PtxError(
                        f"PTX line {variable.line}: initializer {word!r} is no variable or function"
                    )
            data = (word & ((1 << 8 * variable.element) - 1)).to_bytes(variable.element, "little")
            at = i * variable.element
            arrays[variable.name][at : at + variable.element] = np.frombuffer(data, np.uint8)

    @property
    def allocations(self) -> list[Allocation]:
        """The module's variables as accessible memory."""
        return [
            Allocation(f"variable {name}", span_of(array))
            for name, array in self._variables.items()
            if len(array)
        ]


class Kernel:
    """An entry that is ready to launch."""

    def __init__(self, translation: Translation, module: Module) -> None:
        self.translation = translation
        self._module = module
        self._function = translation.program.function
        self.name = self._function.name
        self.max_threads = self._function.max_threads
        self._runs: dict[int, Run] = {}

    @property
    def parameters(self) -> list[str]:
        """PTX types of the parameters, such as "u64" or "f32", in order; "b8[64]" for a struct."""
        return [
            p.type if p.size == p.element else f"{p.type}[{p.size // p.element}]"
            for p in self._function.parameters
        ]

    @cached_property
    def _undefined_reads(self) -> list[str]:
        return undefined_reads(self.translation)

    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        shared_bytes: int = 0,
        written: Iterable[int] | None = None,
        *,
        memory: Memory | None = None,
        budget: int = 256_000_000,
        spin_limit: int = 100_000,
        step_limit: int = 5_000_000,
    ) -> Report:
        """Runs the kernel on the CPU; arrays among `args` are updated in place.

        grid, block: up to three sizes. args: CPU tensors or NumPy arrays (any strides; only their own
        elements are accessible), `Undefined(array)`, `TensorMap`s, numbers, bytes for structs, or None for a
        null pointer.
        shared_bytes: dynamic shared memory a block. written: positions of the arguments the kernel may
        write (None: all). memory: carries what was written of Undefined buffers over several launches.
        budget: bytes of host memory for the blocks that run at once; more blocks can wait for each other, but
        the arrays of fewer stay in cache. spin_limit, step_limit: scheduling
        steps without progress (of spinning code, of any code) before a "no progress" fault.
        Raises `PtxError` for a launch that does not fit the kernel, `Fault` for what the kernel does wrong.
        """
        begin = time.perf_counter()
        grid3, block3 = _dim3("grid", grid), _dim3("block", block)
        threads = block3[0] * block3[1] * block3[2]
        self._check_launch(block3, args, shared_bytes)
        memory = memory or Memory()
        heap = GlobalMemory()
        allowed = None if written is None else set(written)
        parameters = marshal(self._function, args, heap, memory, allowed)
        heap.allocations += self._module.allocations
        heap.watch(self.translation.global_granule)
        counters = Counters(warnings=dict.fromkeys(self._undefined_reads))
        machine = Machine(self.translation, self._runs, spin_limit, step_limit)
        total = grid3[0] * grid3[1] * grid3[2]
        batch = self._batch(threads, shared_bytes, budget)
        with np.errstate(all="ignore"):
            for first in range(0, total, batch):
                state = State(
                    self.translation,
                    grid3,
                    block3,
                    first,
                    min(batch, total - first),
                    shared_bytes,
                    heap,
                    parameters,
                    Scheduler(),
                    counters,
                )
                machine.execute(state)
        seconds = time.perf_counter() - begin
        return counters.report(self.translation.program, total, threads, seconds)

    def _check_launch(self, block: Dim3, args: Sequence[Any], shared_bytes: int) -> None:
        expected = len(self._function.parameters)
        if len(args) != expected:
            raise PtxError(
                f"{self.name} takes {expected} arguments ({', '.join(self.parameters)}), got {len(args)}"
            )
        required, cluster = self._function.block, self._function.cluster
        if required not in (None, block):
            raise PtxError(f"{self.name}: blocks of {block} threads, the kernel requires {required}")
        if cluster != (1, 1, 1):
            raise PtxError(f"{self.name} runs in clusters of {cluster} blocks; only 1×1×1 is implemented")
        limit, threads = min(self.max_threads or 1024, 1024), block[0] * block[1] * block[2]
        if threads > limit:
            raise PtxError(f"{self.name}: {threads} threads a block, the kernel allows {limit}")
        static = self.translation.program.static_shared_bytes
        if shared_bytes < 0 or static + shared_bytes > _SHARED_LIMIT:
            raise PtxError(
                f"{self.name}: {static} + {shared_bytes} bytes of shared memory exceed {_SHARED_LIMIT}"
            )

    def _batch(self, threads: int, shared_bytes: int, budget: int) -> int:
        """Blocks that fit the budget, at least one."""
        warps = -(-threads // 32)
        shared = self.translation.program.static_shared_bytes + shared_bytes
        granules = shared // self.translation.granule
        per_block = warps * 32 * (register_bytes(self.translation) + 64)
        per_block += shared + granules * (_GRANULE_SHADOW_BYTES + 4 * warps)
        return max(1, budget // per_block)


def _dim3(what: str, sizes: Sequence[int]) -> Dim3:
    values = [int(n) for n in sizes] + [1] * (3 - len(sizes))
    if len(values) != 3 or min(values) < 1:
        raise PtxError(f"{what} must be up to three positive sizes, got {tuple(sizes)}")
    return values[0], values[1], values[2]
