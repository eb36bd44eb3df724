"""The words of an MXFP4 mixture of experts' spec."""

from __future__ import annotations

from gen.values import Choice


class Layout(Choice):
    """The order of w13's rows."""

    GATE_UP = "gate_up"
    """All rows of gate (w1), then all of up (w3)."""
    UP_GATE = "up_gate"
    """All rows of up (w3), then all of gate (w1)."""
    INTERLEAVED = "interleaved"
    """Row 2n is gate's row n, row 2n + 1 is up's."""


class Activation(Choice):
    """The element type in which activations are multiplied."""

    BFLOAT16 = "bfloat16"
    """As they are; weights become bf16."""
    E4M3 = "float8_e4m3fn"
    """Quantized, with a power of two for a group of k, for the block-scaled MMA of sm_120a."""
