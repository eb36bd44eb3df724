"""What the interpreter raises."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = (
    "out of bounds",
    "misaligned",
    "read-only",
    "unsupported address",
    "uninitialized read",
    "data race",
    "pending copy",
    "missing proxy fence",
    "mbarrier misuse",
    "tensor map",
    "barrier divergence",
    "barrier mismatch",
    "non-converged",
    "deadlock",
    "no progress",
    "trap",
)
"""Every kind of `Fault`."""


class PtxError(Exception):
    """PTX that cannot be parsed or is not implemented, or a launch that does not fit the kernel.

    `line` is the 1-based line of the PTX text, or None when no line is to blame.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Hit:
    """The allocation that an access hit, or missed and is the nearest one to it.

    `name` is such as "argument 2", "variable table", "shared variable tile", "shared memory" or "local
    memory"; `size` its bytes; `offset` the accessed byte, counted from its first one; `outside` how many
    bytes the access lies before its start (negative) or past its end (positive), 0 where it is inside.
    """

    name: str
    size: int
    offset: int
    outside: int = 0

    @property
    def argument(self) -> int | None:
        """The position of the launch argument, if it is one."""
        words = self.name.split()
        return int(words[1]) if words[0] == "argument" else None

    def __str__(self) -> str:
        if self.outside < 0:
            return (
                f"nearest {self.name} ({self.size} bytes), missed by {-self.outside} bytes before its start"
            )
        if self.outside > 0:
            return f"nearest {self.name} ({self.size} bytes), missed by {self.outside} past its end"
        return f"byte {self.offset} of {self.name} ({self.size} bytes)"


@dataclass(frozen=True, slots=True)
class Access:
    """Which bytes an access touches: `size` of them from `address` in a state space."""

    space: str
    address: int
    size: int
    hit: Hit | None = None

    def __str__(self) -> str:
        return f"{self.size} bytes at {self.space} address {self.address:#x}" + (
            f", {self.hit}" * bool(self.hit)
        )


class Fault(PtxError):  # noqa: N818
    """A mistake of the running kernel.

    `kind` is one of `KINDS`; `text` the PTX instruction at `line`; `source` the "file:line" that a .loc
    directive gives it, or None; `block` and `thread` are the (x, y, z) of the first thread at fault, or None
    where the fault belongs to many; `access` the memory it touches, or None where it touches none.
    """

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        line: int | None = None,
        text: str = "",
        source: str | None = None,
        block: tuple[int, int, int] | None = None,
        thread: tuple[int, int, int] | None = None,
        access: Access | None = None,
    ) -> None:
        where = f" at PTX line {line}: {text!r}" if line is not None else ""
        where += f" ({source})" if source else ""
        who = f", block {block}, thread {thread}" if block is not None else ""
        what = f" [{access}]" if access else ""
        super().__init__(f"{kind}{where}{who}: {detail}{what}", line)
        self.kind, self.detail = kind, detail
        self.text, self.source = text, source
        self.block, self.thread = block, thread
        self.access = access

    @property
    def address(self) -> tuple[str, int] | None:
        """(state space, address) of the access."""
        return (self.access.space, self.access.address) if self.access else None

    @property
    def allocation(self) -> Hit | None:
        """The allocation that the access hit or missed."""
        return self.access.hit if self.access else None
