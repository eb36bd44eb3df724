# ruff: noqa: E501 - PTX bodies read better unbroken
"""Loads, stores, address spaces and the checks of global memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gen.ptx import Fault, Memory, Module, PtxError, Undefined
from tests.ptx.assemble import assemble, line_of

COPY = """
    add.s64 %rd1, %rd80, %rd0;
    add.s64 %rd2, %rd81, %rd0;
    ld.global.u32 %r1, [%rd1];
    st.global.u32 [%rd2], %r1;
"""


def test_every_width_and_extension() -> None:
    source = np.arange(256, dtype=np.uint8) ^ 0xA5
    kernel = assemble(
        """
    ld.global.s8 %rs1, [%rd80+3];      cvt.s64.s16 %rd1, %rs1;  st.global.s64 [%rd81], %rd1;
    ld.global.u8 %r1, [%rd80+3];       cvt.u64.u32 %rd1, %r1;   st.global.u64 [%rd81+8], %rd1;
    ld.global.s16 %r1, [%rd80+4];      cvt.s64.s32 %rd1, %r1;   st.global.s64 [%rd81+16], %rd1;
    ld.global.s32 %rd1, [%rd80+8];     st.global.s64 [%rd81+24], %rd1;
    ld.global.v2.u64 {%rd1, %rd2}, [%rd80+16]; st.global.v2.b64 [%rd81+32], {%rd1, %rd2};
    ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r1, %r2, %r3, %r4}, [%rd80+32];
    st.global.cs.v4.b32 [%rd81+48], {%r4, %r3, %r2, %r1};
    ld.global.v4.b16 {%rs1, %rs2, %rs3, %rs4}, [%rd80+48]; st.global.v2.b16 [%rd81+64], {%rs3, %rs4};
    ld.global.v4.b64 {%rd1, %rd2, %rd3, %rd4}, [%rd80+64]; st.global.v4.b64 [%rd81+96], {%rd1, %rd2, %rd3, %rd4};
    mov.u32 %r9, 0x11223344; st.global.u8 [%rd81+128], %r9;
    ld.global.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd80+96]; st.global.b32 [%rd81+136], %r8;
    st.global.f32 [%rd81+140], 0f40490FDB;
    st.global.u32 [%rd81+144], 77;
        """,
        "u64 u64",
    )  # fmt: skip
    aligned = np.zeros(512, np.uint8)
    start = -aligned.ctypes.data % 64
    source_at = aligned[start : start + 256]
    source_at[:] = source
    out_bytes = _aligned(512)
    kernel.launch((1,), (1,), [source_at, out_bytes])
    words = out_bytes.view(np.int64)
    assert words[0] == np.int8(source.view(np.int8)[3])
    assert words[1] == source[3]
    assert words[2] == source.view(np.int16)[2]
    assert words[3] == source.view(np.int32)[2]
    assert (words[4:6] == source.view(np.int64)[2:4]).all()
    assert (out_bytes[48:64].view(np.uint32) == source.view(np.uint32)[8:12][::-1]).all()
    assert (out_bytes[64:68] == source[52:56]).all()
    assert (out_bytes[96:128] == source[64:96]).all()
    assert out_bytes[128] == 0x44
    assert out_bytes[136:140].view(np.uint32)[0] == source.view(np.uint32)[31]
    assert out_bytes[140:144].view(np.float32)[0] == np.float32(np.pi)
    assert out_bytes[144] == 77


def _aligned(size: int) -> np.ndarray:
    storage = np.zeros(size + 64, np.uint8)
    start = -storage.ctypes.data % 64
    return storage[start : start + size]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_torch_tensors_are_updated_in_place(dtype: torch.dtype) -> None:
    x = torch.arange(64).to(dtype)
    out = torch.zeros(64, dtype=dtype)
    assemble(COPY, "u64 u64").launch((2,), (32,), [x, out])
    assert torch.equal(x, out)


def test_small_float_tensors() -> None:
    x = torch.randn(128).to(torch.bfloat16)
    out = torch.zeros(256).to(torch.float8_e4m3fn)
    kernel = assemble(COPY, "u64 u64")
    kernel.launch((1,), (64,), [x, out])
    assert torch.equal(out.view(torch.bfloat16), x)


def test_scalars_take_the_type_of_their_parameter() -> None:
    out = np.zeros(4, np.uint32)
    kernel = assemble(
        "st.global.f32 [%rd80], %f51; st.global.u32 [%rd80+4], %r82; st.global.u64 [%rd80+8], %rd83;",
        "u64 f32 u32 u64",
    )
    assert kernel.parameters == ["u64", "f32", "u32", "u64"]
    kernel.launch((1,), (1,), [out, 1.5, -2, None])
    assert out[:1].view(np.float32)[0] == 1.5
    assert out.tolist()[1:] == [2**32 - 2, 0, 0]
    for bad, message in (
        ([out, 1.5, 2.5, None], "float 2.5"),
        ([out, 1, 2**32, 0], "does not fit"),
        ([out], "4"),
    ):
        with pytest.raises(PtxError, match=message):
            kernel.launch((1,), (1,), bad)


def test_out_of_bounds_names_block_thread_line_and_distance() -> None:
    kernel = assemble(COPY, "u64 u64")
    x, out = np.zeros(95, np.int32), np.zeros(96, np.int32)
    with pytest.raises(Fault) as caught:
        kernel.launch((3,), (32,), [x, out])
    fault = caught.value
    assert (fault.kind, fault.block, fault.thread) == ("out of bounds", (2, 0, 0), (31, 0, 0))
    assert fault.line == line_of(kernel, "ld.global.u32")
    assert "argument 0" in str(fault) and "4 past its end" in str(fault)
    assert (out == 0).all()


def test_guarded_off_lanes_may_hold_bad_addresses() -> None:
    kernel = assemble(
        "setp.lt.u32 %p1, %r0, 8;" + COPY.replace("    ld", "@%p1 ld").replace("    st", "@%p1 st"), "u64 u64"
    )
    x, out = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    kernel.launch((1,), (32,), [x, out])
    assert (out == x).all()


def test_null_pointer_and_misalignment() -> None:
    kernel = assemble("ld.global.u32 %r1, [%rd80+2];", "u64")
    with pytest.raises(Fault, match="null pointer") as caught:
        assemble("ld.global.u32 %r1, [%rd80+4];", "u64").launch((1,), (32,), [None])
    assert caught.value.kind == "out of bounds"
    with pytest.raises(Fault, match="not a multiple of 4") as caught:
        kernel.launch((1,), (1,), [np.zeros(4, np.int32)])
    assert caught.value.kind == "misaligned"


def test_gaps_of_strided_views_are_out_of_bounds() -> None:
    whole = np.arange(8 * 16, dtype=np.int32).reshape(8, 16)
    kernel = assemble(
        "mad.wide.u32 %rd1, %r0, %r82, %rd80;" + COPY.replace("add.s64 %rd1, %rd80, %rd0;", ""), "u64 u64 u32"
    )
    out = np.zeros(8, np.int32)
    kernel.launch((1,), (8,), [whole[:, 4:12], out, 64])
    assert (out == whole[:, 4]).all()
    with pytest.raises(Fault, match="gap between the rows") as caught:
        kernel.launch((1,), (8,), [whole[:, 4:12], out, 48])
    assert caught.value.thread == (1, 0, 0)
    with pytest.raises(Fault, match="36 past its end"):
        kernel.launch((1,), (8,), [whole[:, 4:12][2:], out, 64])
    both = torch.arange(64, dtype=torch.int32).reshape(4, 16)
    kernel.launch((1,), (4,), [both[:, 8:], both[:, :1].contiguous(), 64])


def test_two_interleaved_views_of_one_buffer() -> None:
    whole = np.arange(64, dtype=np.int32).reshape(8, 8)
    kernel = assemble(
        "mul.wide.u32 %rd1, %r0, 32; add.s64 %rd2, %rd80, %rd1; add.s64 %rd3, %rd81, %rd1;"
        "ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd3], %r1;",
        "u64 u64",
    )
    kernel.launch((1,), (8,), [whole[:, :4], whole[:, 4:]])
    assert (whole[:, 4] == whole[:, 0]).all()


def test_offsets_beyond_two_gigabytes() -> None:
    huge = np.zeros(5 * 2**30, np.uint8)
    at = 4_500_000_000 // 4 * 4
    kernel = assemble(
        f"add.s64 %rd1, %rd80, {at}; add.s64 %rd1, %rd1, %rd0; ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 5; st.global.u32 [%rd1], %r1;",
        "u64",
    )
    kernel.launch((1,), (32,), [huge])
    assert (huge[at : at + 128].view(np.uint32) == 5).all()
    memory = Memory()
    write = assemble(
        f"add.s64 %rd1, %rd80, {at}; add.s64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], %r0;", "u64"
    )
    write.launch((1,), (32,), [Undefined(huge)], memory=memory)
    kernel.launch((1,), (32,), [huge], memory=memory)
    assert (huge[at : at + 128].view(np.uint32) == np.arange(32) + 5).all()
    with pytest.raises(Fault, match="which nothing has written"):
        assemble(f"ld.global.u32 %r1, [%rd80+{2**31 + 8}];", "u64").launch((1,), (1,), [huge], memory=memory)


def test_reading_undefined_memory() -> None:
    kernel = assemble(COPY, "u64 u64")
    x, out = np.zeros(32, np.int32), np.zeros(32, np.int32)
    with pytest.raises(Fault, match="argument 0") as caught:
        kernel.launch((1,), (32,), [Undefined(x), out])
    assert caught.value.kind == "uninitialized read"
    memory = Memory()
    kernel.launch((1,), (24,), [x, Undefined(out)], memory=memory)
    assert memory.unwritten(out).any(-1).tolist() == [False] * 24 + [True] * 8
    kernel.launch((1,), (24,), [Undefined(out), x], memory=memory)
    with pytest.raises(Fault) as caught:
        kernel.launch((1,), (25,), [out, x], memory=memory)
    assert caught.value.thread == (24, 0, 0)


def test_writes_outside_the_declared_arguments() -> None:
    kernel = assemble(COPY, "u64 u64")
    x, out = np.zeros(32, np.int32), np.zeros(32, np.int32)
    kernel.launch((1,), (32,), [x, out], written=[1])
    with pytest.raises(Fault, match="argument 1 is not among") as caught:
        kernel.launch((1,), (32,), [x, out], written=[0])
    assert caught.value.kind == "read-only"


def test_generic_addresses_reach_every_space() -> None:
    kernel = assemble(
        """
    mov.u32 %r1, tile;  cvt.u64.u32 %rd1, %r1;  cvta.shared.u64 %rd1, %rd1;
    mul.wide.u32 %rd9, %r0, 4;  add.s64 %rd1, %rd1, %rd9;
    mov.u64 %rd2, stack;  cvta.local.u64 %rd2, %rd2;
    add.s64 %rd3, %rd80, %rd0;
    and.b32 %r2, %r0, 3;
    setp.eq.u32 %p1, %r2, 0;  setp.eq.u32 %p2, %r2, 1;
    selp.b64 %rd4, %rd1, %rd2, %p1;  selp.b64 %rd4, %rd3, %rd4, %p2;
    add.u32 %r3, %r0, 100;
    st.u32 [%rd4], %r3;
    ld.u32 %r4, [%rd4];
    isspacep.shared %p3, %rd4;  isspacep.local %p4, %rd4;  isspacep.global %p5, %rd4;
    @%p3 add.u32 %r4, %r4, 1000;  @%p4 add.u32 %r4, %r4, 2000;  @%p5 add.u32 %r4, %r4, 3000;
    st.global.u32 [%rd3], %r4;
        """,
        "u64",
        declare=".shared .align 4 .b8 tile[128]; .local .align 8 .b8 stack[8];",
    )  # fmt: skip
    out = np.zeros(32, np.int32)
    kernel.launch((1,), (32,), [out])
    i = np.arange(32)
    assert (out == 100 + i + np.choose(i & 3, [1000, 3000, 2000, 2000])).all()


def test_module_variables_and_constants() -> None:
    kernel = assemble(
        "mov.u64 %rd1, table; add.s64 %rd1, %rd1, %rd0; ld.const.u32 %r1, [%rd1];"
        "ld.global.u64 %rd2, [pointer]; ld.global.u32 %r2, [%rd2+4]; add.u32 %r1, %r1, %r2;"
        "add.s64 %rd3, %rd80, %rd0; st.global.u32 [%rd3], %r1;",
        "u64",
        module=".const .align 4 .u32 table[4] = {10, 20, 0x1E, 40};\n.global .align 4 .b32 data[2] = {7, 9};\n"
        ".global .align 8 .u64 pointer = generic(data);",
    )
    out = np.zeros(4, np.int32)
    kernel.launch((1,), (4,), [out])
    assert out.tolist() == [19, 29, 39, 49]


def test_local_memory_bounds() -> None:
    body = "mov.u64 %rd1, stack; st.local.u32 [%rd1+{}], %r0; ld.local.u32 %r1, [%rd1+{}]; add.s64 %rd2, %rd80, %rd0; st.global.u32 [%rd2], %r1;"
    out = np.zeros(64, np.int32)
    declare = ".local .align 16 .b8 stack[16];"
    assemble(body.format(12, 12), "u64", declare=declare).launch((2,), (32,), [out])
    assert (out == np.arange(64) % 32).all()
    with pytest.raises(Fault, match="frame of 16"):
        assemble(body.format(16, 16), "u64", declare=declare).launch((2,), (32,), [out])


def test_launch_limits() -> None:
    kernel = Module(
        ".version 8.8\n.target sm_120a\n.address_size 64\n.visible .entry f()\n.maxntid 64, 2, 1\n{ ret; }"
    )["f"]
    assert kernel.max_threads == 128
    with pytest.raises(PtxError, match="allows 128"):
        kernel.launch((1,), (256,), [])
    with pytest.raises(PtxError, match="positive"):
        kernel.launch((0,), (32,), [])
    with pytest.raises(PtxError, match="has: f"):
        _ = Module(".version 8.8\n.target sm_120a\n.visible .entry f() { ret; }")["g"]
