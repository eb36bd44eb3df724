# ruff: noqa: E501 - PTX bodies read better unbroken
"""What the copy engine of sm_90 refuses or does beyond a tensor's size, as its hardware showed."""

from __future__ import annotations

import numpy as np
import pytest

from gen.ptx import Fault, Module, TensorMap

_ENTRY = """
.version 8.8
.target sm_120a
.address_size 64
.visible .entry store(.param .align 64 .b8 map[128], .param .u32 start)
{{
    .reg .b32 %r<8>; .reg .b64 %q<4>; .shared .align 128 .b8 tile[128];
    mov.b64 %q1, map; cvta.param.u64 %q1, %q1; ld.param.u32 %r1, [start]; mov.u32 %r2, %tid.x; mov.u32 %r3, tile;
    mad.lo.u32 %r4, %r2, 4, %r3; st.shared.u32 [%r4], %r2; fence.proxy.async; bar.sync 0;
    setp.ne.u32 %p0, %r2, 0; @%p0 bra END;
    cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%q1, {{%r1}}], [%r3];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END: ret;
}}
""".format().replace(".reg .b32", ".reg .pred %p<2>; .reg .b32", 1)


def _store(array: np.ndarray, start: int) -> None:
    Module(_ENTRY)["store"].launch((1,), (32,), [TensorMap(array, box=(32,)), start])


@pytest.mark.parametrize("start", [1, 2, -5])
def test_boxes_start_at_multiples_of_16_bytes(start: int) -> None:
    with pytest.raises(Fault) as caught:
        _store(np.zeros(64, np.uint32), start)
    assert caught.value.kind == "misaligned"
    assert "16 bytes" in str(caught.value)


def test_stores_write_whole_units_beyond_the_size() -> None:
    """The last 16 bytes that hold an element are written entirely: here those of element 99, the 100th."""
    memory = np.full(100, 7, np.uint32)
    with pytest.raises(Fault) as caught:
        _store(memory[:99], 80)
    assert caught.value.kind == "out of bounds"
    _store(memory, 80)
    assert memory[80:].tolist() == list(range(20))
