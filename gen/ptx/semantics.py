"""Memory semantics of an access: how strong it is, at what scope, and what it orders (PTX ISA, "Memory
Consistency Model")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gen.ptx.modifiers import Modifiers

_SCOPES = ("cta", "cluster", "gpu", "sys")
_DEVICE_SCOPES = ("gpu", "sys")


@dataclass(frozen=True, slots=True)
class Semantics:
    """`strong`: relaxed or more, so that it does not race with other strong accesses of its scope.

    `device`: its scope reaches beyond the block. `acquire`, `release`: it orders by itself, without a fence.
    """

    strong: bool = False
    device: bool = False
    acquire: bool = False
    release: bool = False


WEAK, ATOMIC = Semantics(), Semantics(strong=True, device=True)
"""An ordinary access, and a relaxed one at device scope."""


def take_semantics(modifiers: Modifiers, *, atomic: bool) -> Semantics:
    """Takes .weak, .volatile, .relaxed and so on, with their scope; an atomic is .relaxed.gpu by default."""
    strong = atomic
    words = set(modifiers.left)
    scope = next((word for word in _SCOPES if word in words), "gpu" if atomic else "sys")
    for word in ("volatile", "mmio", "relaxed", "acquire", "release", "acq_rel", "sc"):
        strong = modifiers.flag(word) or strong
    modifiers.flag("weak", *_SCOPES)
    acquire = bool(words & {"acquire", "acq_rel", "sc"})
    release = bool(words & {"release", "acq_rel", "sc"})
    return Semantics(strong, strong and scope in _DEVICE_SCOPES, acquire, release)
