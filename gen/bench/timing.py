"""Medians of CUDA-graph replays, and the two limits of the card that everything is held against."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch

WARMUPS, REPLAYS = 3, 25
COPY_BYTES = 1 << 30


def graph_microseconds(calls: Sequence[Callable[[], object]], repeats: int = 1) -> float:
    """Median microseconds of one call, from replays of a graph that makes all calls in turn, `repeats` times.

    Give calls on inputs of their own, together larger than the L2 cache, where data must come from memory.
    """
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(repeats):
                for call in calls:
                    call()
        times = []
        for replay in range(WARMUPS + REPLAYS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            if replay >= WARMUPS:
                times.append(start.elapsed_time(end) * 1e3)
    return float(statistics.median(times)) / (repeats * len(calls))


def copy_bytes_per_second() -> float:
    """Bytes read plus bytes written by a large device-to-device copy, a second."""
    source = torch.randint(-(2**62), 2**62, (COPY_BYTES // 8,), device="cuda")
    target = torch.empty_like(source)
    # A kernel, as ours are: in a graph, copy_ would become a transfer of the slower copy engine.
    microseconds = graph_microseconds([lambda: torch.bitwise_not(source, out=target)], 4)
    return 2 * COPY_BYTES / (microseconds * 1e-6)


def empty_microseconds() -> float:
    """One launch of next to no work inside a graph of many."""
    one = torch.zeros(1, device="cuda")
    return graph_microseconds([lambda: one.add_(1)], 100)
