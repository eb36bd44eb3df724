"""What is said of wrong accesses to shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from gen.ptx.errors import Access
    from gen.ptx.state import State
    from gen.ptx.syntax import Instruction


def unreadable(m: State, ins: Instruction, k: int, access: Access, *, pending: bool) -> NoReturn:
    """The k-th running lane touches what an asynchronous copy still fills (`pending`), or nothing wrote."""
    if pending:
        m.fault(
            "pending copy",
            ins,
            k,
            "touches shared memory that an asynchronous copy is still filling; wait for its group "
            "(cp.async.wait_group) or its mbarrier's phase before using it",
            access,
        )
    m.fault(
        "uninitialized read",
        ins,
        k,
        "reads shared memory that nothing has written; check the loop that fills the tile and its bounds",
        access,
    )


def race(m: State, ins: Instruction, k: int, does: str, did: str, access: Access, other: int) -> NoReturn:
    """The k-th running lane's access conflicts with an earlier one of warp `other`."""
    warp = int(m.row_of[int(m.lanes.ids[k])]) % m.warps
    m.fault(
        "data race",
        ins,
        k,
        f"warp {warp} {does} shared address {access.address:#x}, which warp {other} {did} with no barrier "
        "between them; add one (all participants of both sides must arrive at it)",
        access,
    )


def collision(m: State, ins: Instruction, k: int, j: int, access: Access) -> NoReturn:
    """The k-th and j-th running lanes write different values to one location by one instruction."""
    m.fault(
        "data race",
        ins,
        k,
        f"writes {access.space} memory and so does {m.describe(j)} in the same instruction with another "
        "value; only one of them should store, or use an atomic",
        access,
    )
