"""Instruction translators: `TABLE` maps an opcode to what makes its closure."""

from gen.ptx.context import Translator
from gen.ptx.ops import (
    arithmetic,
    atomic,
    cluster,
    compare,
    control,
    convert,
    copy,
    fences,
    logic,
    matrix,
    mbarrier,
    memory,
    messages,
    mma,
    move,
    warp,
)

_MODULES = (
    arithmetic,
    atomic,
    cluster,
    compare,
    control,
    convert,
    copy,
    fences,
    logic,
    matrix,
    mbarrier,
    memory,
    messages,
    mma,
    move,
    warp,
)

TABLE: dict[str, Translator] = {
    opcode: translator for module in _MODULES for opcode, translator in module.TABLE.items()
}
