"""Measuring several compiled specs on one card, beside the card's copy rate and its empty launch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gen.bench.measure import Row, measure
from gen.bench.timing import copy_bytes_per_second, empty_microseconds
from gen.compile.result import Compiled
from gen.run.cuda import Cuda

if TYPE_CHECKING:
    from gen.spec import KernelSpec


@dataclass
class Session:
    """A card with its two limits, measured when the session starts."""

    card: int = 0
    executor: Cuda = field(init=False)
    copy_rate: float = field(init=False)
    empty_us: float = field(init=False)

    def __post_init__(self) -> None:
        self.executor = Cuda(self.card, wait=False)
        self.copy_rate, self.empty_us = copy_bytes_per_second(), empty_microseconds()

    def headline(self) -> str:
        """The card and its limits in one line."""
        title = self.executor.describe().title
        return (
            f"{title}: copies {self.copy_rate / 1e12:.2f} TB/s, an empty launch takes {self.empty_us:.2f} us"
        )

    def rows(self, specs: Iterable[tuple[KernelSpec, Compiled]]) -> Iterator[Row]:
        """The measurements of specs, as they are made."""
        device = self.executor.describe()
        for spec, compiled in specs:
            yield from measure(spec, compiled, self.executor, device, self.copy_rate)
