"""The spec of a mixture of experts whose weights are MXFP4."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from gen.families.mxfp4_moe.options import Activation, Layout
from gen.spec.fields import OneOf, Section, Size, Split, Within, refusal
from gen.spec.model import KernelSpec
from gen.values import SplitWord

MAX_TOKENS = 1 << 20

Tolerance = Annotated[float, Field(ge=0.0, le=1.0)]
Factor = Annotated[float, Field(gt=0.0, le=1024.0)]


class Shapes(Section):
    """Sizes of one layer's experts on one card."""

    tokens: Annotated[Size, Within(0, MAX_TOKENS)]
    """Rows of hidden_states and out."""
    hidden: Annotated[Size, Within(128, 1 << 16, step=128)]
    """Columns of hidden_states and out; k of w13."""
    intermediate: Annotated[Size, Within(128, 1 << 16, step=128)]
    """Columns of gate and of up; k of w2. At tensor parallel t, 1/t of the model's."""
    experts: Annotated[Size, Within(1, 1024)]
    """Experts of this card."""
    topk: Annotated[int, Within(1, 32)]
    """Experts of a token."""


class Dtypes(Section):
    """Element types."""

    activation: Activation = Activation.BFLOAT16
    """What is multiplied with the weights; hidden_states are bf16, and quantized here."""
    activation_group: Annotated[int, OneOf((32, 128))] | None = None
    """k of a scale of quantized activations."""
    weight: Literal["float4_e2m1fn"] = "float4_e2m1fn"
    """w13 and w2: two to a byte, the even k in the low half."""
    scale: Literal["float8_e8m0fnu"] = "float8_e8m0fnu"
    """Scales of the weights, one for 32 of k of a row."""
    out: Literal["bfloat16"] = "bfloat16"
    """Output."""

    @model_validator(mode="after")
    def _group_of_quantized(self) -> Dtypes:
        quantized = self.activation is Activation.E4M3
        if quantized != (self.activation_group is not None):
            reason = f"activations of {self.activation} {'need a' if quantized else 'have no'} group of k"
            raise refusal(reason, "use 128" if quantized else "remove it", ("activation_group",))
        return self


class Bucket(Section):
    """The work of one block where there are at most `up_to` tokens."""

    up_to: Annotated[int, Within(1, MAX_TOKENS)] | None = None
    """The largest number of tokens that this bucket serves; only the last serves any."""
    m: Annotated[int, OneOf((8, 16, 32, 64))]
    """Pairs of a token and an expert, all of one expert."""
    n: Annotated[int, OneOf((64, 128))]
    """Rows of weights: half as many of gate as of up in w13. A warp has 32."""
    stages: Annotated[int, Within(2, 12)]
    """Blocks of 128 of k in flight."""


class Tile(Section):
    """The buckets of tokens, ascending; the planner takes the first that serves a launch."""

    buckets: Annotated[list[Bucket], Field(min_length=1, max_length=4)]
    """Tiles by the largest number of tokens that each serves."""

    @model_validator(mode="after")
    def _ascending(self) -> Tile:
        *bounded, last = [bucket.up_to for bucket in self.buckets]
        if last is not None:
            reason = f"the last bucket serves up to {last} tokens only"
            raise refusal(reason, "remove its up_to", ("buckets",))
        known = [top for top in bounded if top is not None]
        if len(known) < len(bounded) or sorted(set(known)) != known:
            reason = "up_to must grow from bucket to bucket and be absent from the last alone"
            raise refusal(reason, "give every other bucket an up_to, in ascending order", ("buckets",))
        if len({bucket.m for bucket in self.buckets}) < len(self.buckets):
            raise refusal("two buckets have the same m", "merge them", ("buckets",))
        return self


class Features(Section):
    """SwiGLU is gate · sigmoid(alpha · gate) · (up + beta)."""

    alpha: Factor = 1.0
    """Factor of gate in the sigmoid."""
    beta: Annotated[float, Field(ge=0.0, le=16.0)] = 0.0
    """What is added to up."""
    limit: Factor | None = None
    """Gate is at most this, and up between this and its negative."""
    bias: bool = False
    """w13_bias and w2_bias are added to the products."""
    weight_before_down: bool = False
    """Routing weights multiply what goes into w2, not what comes out (DeepSeek)."""
    routed_scaling_factor: Factor = 1.0
    """Factor of the sum over a token's experts."""


class Tolerances(Section):
    """How far results may be from the reference, which rounds where the kernels round."""

    calc_diff: Tolerance = 5e-6
    """1 − 2 x·y / (x·x + y·y)."""
    accumulate: Tolerance = 2.0**-18
    """Absolute error of a product relative to the sum of its terms' magnitudes."""


class Spec(KernelSpec):
    """Mixture of experts with MXFP4 weights."""

    family: Literal["mxfp4_moe"]
    shapes: Shapes
    layout: Layout
    dtypes: Dtypes = Dtypes()
    tile: Tile
    features: Features = Features()
    tolerances: Tolerances = Tolerances()

    @field_validator("split", mode="after")
    @classmethod
    def _whole_k(cls, split: Split) -> Split:
        if split is not SplitWord.NONE:
            raise refusal("k is never split: the experts of a token fill the card", "use none")
        return split
