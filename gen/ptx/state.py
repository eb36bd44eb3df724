"""The state of one batch of blocks while it runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from gen.ptx import specials
from gen.ptx.arrays import DTYPES, VIEW_BYTES, Array
from gen.ptx.bulk_groups import BulkGroups
from gen.ptx.cluster import ClusterBarriers
from gen.ptx.copies import AsyncCopies
from gen.ptx.errors import Access, Fault, Hit
from gen.ptx.lanes import Lanes, RepeatedLane
from gen.ptx.mbarrier import MBarriers
from gen.ptx.ordering import DeviceOrder
from gen.ptx.program import SHARED_BASE, parameter_layout
from gen.ptx.proxy import AsyncProxy
from gen.ptx.shared import SharedMemory
from gen.ptx.sync import BlockBarriers

if TYPE_CHECKING:
    from gen.ptx.memory import GlobalMemory
    from gen.ptx.report import Counters
    from gen.ptx.schedule import Scheduler
    from gen.ptx.syntax import Instruction
    from gen.ptx.translation import Translation

Dim3 = tuple[int, int, int]
_FAMILIES = {
    "pred": ("pred",),
    "u16": ("u16", "s16"),
    "u32": ("u32", "s32", "f32"),
    "u64": ("u64", "s64", "f64"),
}


class State:
    """Registers, memories and the currently running lanes (`sel`, `n`, `lanes`) of a batch.

    `v[view][index]` is a register as a NumPy array over all lanes of the batch.
    """

    grid: Dim3
    block: Dim3
    first_block: int
    warps: int
    thread_of: Array
    block_of: Array
    dynamic_shared_bytes: int
    shared_size: int

    def __init__(
        self,
        translation: Translation,
        grid: Dim3,
        block: Dim3,
        first_block: int,
        blocks: int,
        shared_bytes: int,
        memory: GlobalMemory,
        parameters: Array,
        scheduler: Scheduler,
        counters: Counters,
    ) -> None:
        self.translation = translation
        self.grid, self.block = grid, block
        self.first_block, self.blocks = first_block, blocks
        self.memory, self.parameters = memory, parameters
        self.scheduler, self.counters = scheduler, counters
        threads = block[0] * block[1] * block[2]
        self.warps = -(-threads // 32)
        self.total = blocks * self.warps * 32
        lane = np.arange(self.total)
        self.block_of = (lane >> 5) % blocks
        self.row_of = self.block_of * self.warps + lane // (blocks * 32)
        self.thread_of = lane // (blocks * 32) * 32 + (lane & 31)
        self.live = self.thread_of < threads
        self.dynamic_shared_bytes = shared_bytes
        size = translation.program.static_shared_bytes + shared_bytes
        self.shared_size = size
        self.shared = SharedMemory(blocks, self.warps, size, translation.granule)
        self.proxy = AsyncProxy(self.shared)
        self.order = DeviceOrder(memory.flags, self.shared, first_block, grid[0] * grid[1] * grid[2])
        self.shared_base = self.shared.start + self.block_of * self.shared.stride - SHARED_BASE
        local = -(-translation.program.local_bytes // 16) * 16
        self.local_size = local
        self.local_storage = np.zeros(self.total * local + 16, np.uint8)
        self.local_start = -(-self.local_storage.ctypes.data // 16) * 16
        self.local_end = self.local_start + self.total * local
        self.local_written = np.zeros(self.total * local, bool)
        self.local_base = self.local_start + lane * local
        self.barriers = BlockBarriers(blocks, self.warps)
        self.cluster_barriers = ClusterBarriers(blocks, self.total, self.shared.clock.shape[1])
        self.copies = AsyncCopies(self.total)
        self.bulk_groups = BulkGroups(self.total)
        self.mbarriers = MBarriers()
        self.carry = np.zeros(self.total, bool)
        self.v = self._registers()
        self.sampling = first_block == 0
        self.lanes = Lanes(range(self.total))
        self.sel: slice | Array = self.lanes.index
        self.n = self.total

    def _registers(self) -> dict[str, list[Array]]:
        out: dict[str, list[Array]] = {}
        for width, views in _FAMILIES.items():
            dtype = DTYPES[width]
            registers = np.zeros((self.translation.registers[width], self.total), dtype)
            extras = []
            for content in reversed(list(self.translation.extras[width])):
                value = self.special(content) if isinstance(content, str) else np.array(content, dtype)
                extras.append(np.broadcast_to(np.asarray(value).astype(dtype), self.total))
            for view in views:
                out[view] = [*registers.view(DTYPES[view]), *(e.view(DTYPES[view]) for e in extras)]
        return out

    def special(self, name: str) -> Array | int:
        """Value of a special register, or the address of a parameter of the entry."""
        if name in specials.NAMES:
            return specials.value(name, self)
        offset = parameter_layout(self.translation.program.function)[0][name]
        return int(self.parameters.ctypes.data) + offset

    def select(self, lanes: Lanes) -> None:
        """Makes these the running lanes."""
        self.lanes, self.sel, self.n = lanes, lanes.index, lanes.count

    def repeat(self, lane: Lanes, times: int) -> None:
        """Makes one lane the running one, `times` over: for what a single thread does to many addresses."""
        self.lanes = RepeatedLane(lane.first, times)
        self.sel, self.n = self.lanes.index, times

    def constant_address(self, address: int) -> Array:
        """The same int64 address for every running lane."""
        return np.full(self.n, address, np.int64)

    def ready(self, position: int, lanes: Lanes) -> None:
        """Lanes go on at a position."""
        self.scheduler.push(position, lanes)

    def progress(self) -> None:
        """Something happened that a waiting thread could be waiting for."""
        self.scheduler.idle = 0

    def clock(self) -> int:
        """A monotonic count for %clock and %globaltimer, in ns."""
        return time.perf_counter_ns()

    # -- errors --

    def coordinates(self, lane: int) -> tuple[Dim3, Dim3]:
        """(block, thread) of a lane."""
        thread = int(self.thread_of[lane])
        bx, by, _ = self.block
        position = thread % bx, thread // bx % by, thread // (bx * by)
        return self.block_position(self.first_block + int(self.block_of[lane])), position

    def block_position(self, index: int) -> Dim3:
        """(x, y, z) of a block of the launch by its number."""
        gx, gy, _ = self.grid
        return index % gx, index // gx % gy, index // (gx * gy)

    def describe(self, k: int) -> str:
        """The k-th running lane in words."""
        block, thread = self.coordinates(int(self.lanes.ids[k]))
        return f"thread {thread} of block {block}"

    def fault(
        self, kind: str, ins: Instruction, k: int, detail: str, access: Access | None = None
    ) -> NoReturn:
        """Raises a `Fault` of the k-th running lane."""
        self.fault_at(kind, ins, int(self.lanes.ids[k]), detail, access)

    def fault_at(
        self, kind: str, ins: Instruction, lane: int, detail: str, access: Access | None = None
    ) -> NoReturn:
        """Raises a `Fault` of a lane."""
        block, thread = self.coordinates(lane)
        raise Fault(
            kind,
            detail,
            line=ins.line,
            text=ins.text,
            source=self.source(ins),
            block=block,
            thread=thread,
            access=access,
        )

    def source(self, ins: Instruction) -> str | None:
        """The "file:line" an instruction was compiled from, if the PTX tells."""
        return self.translation.program.module.source(ins)

    def shared_access(self, address: int, size: int) -> Access:
        """An access to the shared-space address, with the variable it hits."""
        return Access("shared", address, size, self._shared_hit(address, size))

    def _shared_hit(self, address: int, size: int) -> Hit:
        offset = address - SHARED_BASE
        outside = offset if offset < 0 else max(offset + size - self.shared_size, 0)
        program = self.translation.program
        for name, start in program.shared.items():
            length = program.shared_sizes.get(name) or SHARED_BASE + self.shared_size - start
            if not outside and start <= address < start + length:
                return Hit(f"shared variable {name}", length, address - start)
        return Hit("shared memory", self.shared_size, offset, outside)

    def local_access(self, address: int, size: int) -> Access:
        """An access to the local-space address."""
        outside = address if address < 0 else max(address + size - self.local_size, 0)
        return Access("local", address, size, Hit("local memory", self.local_size, address, outside))

    def warn(self, ins: Instruction, message: str) -> None:
        """Adds a warning to the report, once an instruction and message."""
        self.counters.warn(f"PTX line {ins.line}: {ins.text!r}: {message}")


def register_bytes(translation: Translation) -> int:
    """Bytes of registers and local memory a thread needs."""
    return (
        sum(VIEW_BYTES[w] * n for w, n in translation.registers.items()) + 2 * translation.program.local_bytes
    )
