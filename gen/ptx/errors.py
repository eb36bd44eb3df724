"""What the interpreter raises."""

from __future__ import annotations


class PtxError(Exception):
    """PTX that cannot be parsed or is not implemented, or a launch that does not fit the kernel.

    `line` is the 1-based line of the PTX text, or None when no line is to blame.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Fault(PtxError):  # noqa: N818
    """A mistake of the running kernel.

    `kind` is one of "out of bounds", "misaligned", "uninitialized read", "pending copy", "missing proxy
    fence", "mbarrier misuse", "tensor map", "data race", "non-converged", "deadlock", "no progress", "trap",
    "read-only" and "unsupported address"; `block` and `thread` are the (x, y, z) of the first thread at
    fault, or None where the fault belongs to many.
    """

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        line: int | None = None,
        text: str = "",
        block: tuple[int, int, int] | None = None,
        thread: tuple[int, int, int] | None = None,
    ) -> None:
        where = f" at PTX line {line}: {text!r}" if line is not None else ""
        who = f", block {block}, thread {thread}" if block is not None else ""
        super().__init__(f"{kind}{where}{who}: {detail}", line)
        self.kind = kind
        self.block = block
        self.thread = thread
