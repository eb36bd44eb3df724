"""Instruction translators: `TABLE` maps an opcode to what makes its closure."""

from gen.ptx.context import Translator
from gen.ptx.ops import (
    arithmetic,
    atomic,
    compare,
    control,
    convert,
    copy,
    logic,
    mbarrier,
    memory,
    move,
    tensor,
    warp,
)

TABLE: dict[str, Translator] = {
    opcode: translator
    for module in (
        arithmetic,
        logic,
        compare,
        convert,
        move,
        memory,
        atomic,
        control,
        warp,
        tensor,
        copy,
        mbarrier,
    )
    for opcode, translator in module.TABLE.items()
}
