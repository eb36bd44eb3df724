"""The dotted words of an opcode."""

from __future__ import annotations

from gen.ptx.syntax import Instruction

TYPES = frozenset(
    {f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64, 128)}
    | {"pred", "f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64", "tf32", "u16x2", "s16x2"}
    | {"e4m3", "e5m2", "e4m3x2", "e5m2x2", "e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2", "ue8m0", "ue4m3"}
    | {"e2m1", "e2m3", "e3m2", "s4", "u4", "b1"}
)


class Modifiers:
    """The dotted words of an opcode, taken one by one; what is left over is not implemented."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.left = list(instruction.modifiers)

    def flag(self, *names: str) -> bool:
        """Takes each of `names` that is present; True if any was."""
        found = [name for name in names if name in self.left]
        for name in found:
            self.left.remove(name)
        return bool(found)

    def pick(self, *names: str, default: str = "") -> str:
        """Takes the first of `names` that is present."""
        for name in self.left:
            if name in names:
                self.left.remove(name)
                return name
        return default

    def types(self) -> list[str]:
        """Takes the trailing type names, in order."""
        kinds = [name for name in self.left if name in TYPES]
        self.left = [name for name in self.left if name not in TYPES]
        return kinds

    def type(self) -> str:
        """Takes the only type."""
        kinds = self.types()
        if len(kinds) != 1:
            raise self.instruction.error(f"expected one type, found {kinds or 'none'}")
        return kinds[0]

    def done(self) -> None:
        """Refuses what nobody took."""
        if self.left:
            raise self.instruction.error(f"the modifier .{'.'.join(self.left)} is not implemented here")
