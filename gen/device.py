"""The cards that plans are made for: one YAML file each in `gen/devices/`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib import resources

DEFAULT = "rtx_pro_6000"


@dataclass(frozen=True)
class Device:
    """A card: streaming multiprocessors, and the limits that decide how many blocks share one."""

    name: str
    title: str
    arch: str
    sms: int
    shared_bytes_per_block: int
    shared_bytes_per_sm: int
    threads_per_sm: int
    registers_per_sm: int
    memory_gb_per_s: int

    RESERVED_SHARED_BYTES = 1024
    """Shared memory that the hardware keeps for each block."""

    def blocks_per_sm(self, threads: int, shared_bytes: int) -> int:
        """Resident blocks on one SM, each thread taking as many registers as a block of that size may."""
        registers = min(255, self.registers_per_sm // threads) // 8 * 8
        return max(
            1,
            min(
                self.threads_per_sm // threads,
                self.shared_bytes_per_sm // (shared_bytes + self.RESERVED_SHARED_BYTES),
                self.registers_per_sm // (threads * registers),
            ),
        )


def names() -> list[str]:
    """The devices that `load` knows, sorted."""
    folder = resources.files("gen").joinpath("devices")
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load(name: str) -> Device:
    """The device of that name. Raises KeyError where `names()` does not list it."""
    if name not in names():
        raise KeyError(name)
    from ruamel.yaml import YAML  # only needed here, and absent where packed kernels run

    text = resources.files("gen").joinpath("devices", f"{name}.yaml").read_text()
    values = YAML(typ="safe", pure=True).load(text)
    return Device(
        name=name, **{field.name: values[field.name] for field in fields(Device) if field.name != "name"}
    )
