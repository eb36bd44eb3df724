"""What a fault tells beside its message: source line, address and allocation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gen.ptx import Fault, Hit, Module
from gen.ptx.errors import KINDS
from tests.ptx.assemble import assemble


def fault(body: str, *args: Any, params: str = "u64", module: str = "", declare: str = "") -> Fault:
    with pytest.raises(Fault) as caught:
        assemble(body, params, module, declare).launch((2,), (64,), args)
    assert caught.value.kind in KINDS and str(caught.value.kind) in str(caught.value)
    return caught.value


def test_a_miss_names_the_nearest_argument() -> None:
    array = np.zeros(100, np.float32)
    caught = fault("add.s64 %rd1, %rd80, %rd0; st.global.f32 [%rd1], %f0;", array)
    assert (caught.kind, caught.block, caught.thread) == ("out of bounds", (1, 0, 0), (36, 0, 0))
    assert caught.address == ("global", array.ctypes.data + 400)
    assert caught.allocation == Hit("argument 0", 400, 400, 4)
    assert caught.allocation.argument == 0
    caught = fault("ld.global.v2.u32 {%r1, %r2}, [%rd80+-16];", array)
    assert caught.allocation == Hit("argument 0", 400, -16, -16)


def test_a_miss_of_a_module_variable_names_it() -> None:
    module = ".global .align 4 .b8 table[64];"
    caught = fault("mov.u64 %rd1, table; ld.global.u32 %r1, [%rd1+64];", None, module=module)
    assert caught.allocation == Hit("variable table", 64, 64, 4)
    assert caught.allocation.argument is None
    assert "missed by 4 past its end" in str(caught)


def test_a_null_pointer_hits_no_allocation() -> None:
    caught = fault("ld.global.u32 %r1, [%rd80+8];", None)
    assert (caught.address, caught.allocation) == (("global", 8), None)


def test_shared_faults_name_the_variable() -> None:
    declare = ".shared .align 16 .b8 first[64]; .shared .align 16 .b8 second[64];"
    body = "mov.u32 %r1, first; st.shared.u32 [%r1], %r1; mov.u32 %r1, second; ld.shared.u32 %r2, [%r1+{}];"
    caught = fault(body.format(8), None, declare=declare)
    assert (caught.kind, caught.allocation) == ("uninitialized read", Hit("shared variable second", 64, 8))
    assert caught.address == ("shared", 1024 + 64 + 8)
    caught = fault(body.format(64), None, declare=declare)
    assert (caught.kind, caught.allocation) == ("out of bounds", Hit("shared memory", 128, 128, 4))


def test_local_faults_tell_the_frame() -> None:
    caught = fault("mov.u64 %rd1, frame; st.local.u32 [%rd1+64], %r0;", None, declare=".local .b8 frame[64];")
    assert (caught.address, caught.allocation) == (("local", 64), Hit("local memory", 64, 64, 4))


def test_the_source_line_comes_from_loc_and_file() -> None:
    text = """
.version 8.8
.target sm_120a
.address_size 64
.visible .entry kernel(.param .u64 p0)
{
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [p0];
    .loc 1 41 5
    ld.global.u64 %rd1, [%rd1];
    .loc 1 42 7, function_name $L__info_string0, inlined_at 1 30 3
    ld.global.u64 %rd1, [%rd1+4];
    ret;
}
    .file 1 "/src//kernel.cu" // a comment
"""
    with pytest.raises(Fault) as caught:
        Module(text)["kernel"].launch((1,), (1,), [np.zeros(4, np.uint8)])
    assert caught.value.source == "/src//kernel.cu:41"
    assert "(/src//kernel.cu:41)" in str(caught.value)
    pointer = np.zeros(1, np.uint64)
    pointer[0] = pointer.ctypes.data
    with pytest.raises(Fault) as caught:
        Module(text)["kernel"].launch((1,), (1,), [pointer])
    assert caught.value.kind == "misaligned"
    assert caught.value.source == "/src//kernel.cu:42, inlined at /src//kernel.cu:30"
    with pytest.raises(Fault) as caught:
        Module(text.replace('.file 1 "/src//kernel.cu"', ""))["kernel"].launch((1,), (1,), [pointer])
    assert caught.value.source is None


def test_a_barrier_wait_without_end_tells_what_its_phase_lacks() -> None:
    body = """
    mov.u32 %r20, bar; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [%r20], 65; bar.sync 0;
    mbarrier.arrive.shared.b64 _, [%r20];
W:  mbarrier.try_wait.parity.shared.b64 %p2, [%r20], 0; @!%p2 bra W;
    """
    with pytest.raises(Fault, match="lacking 1 of 65 arrivals and 0 bytes") as caught:
        assemble(body, declare=".shared .align 8 .b64 bar;").launch((1,), (64,), [None], spin_limit=1000)
    assert caught.value.kind == "mbarrier misuse"
    assert caught.value.allocation == Hit("shared variable bar", 8, 0)
