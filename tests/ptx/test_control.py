# ruff: noqa: E501 - PTX bodies read better unbroken
"""Divergence, reconvergence, calls, barriers, spinning and the ways to get stuck."""

from __future__ import annotations

import numpy as np
import pytest

from gen.ptx import Fault, PtxError
from tests.ptx.assemble import assemble, line_of

STORE = "add.s64 %rd1, %rd80, %rd0; st.global.u32 [%rd1], %r1;"


def run(
    body: str, n: int = 128, blocks: int = 1, declare: str = "", module: str = "", **options: int
) -> np.ndarray:
    """%r1 of every thread."""
    out = np.zeros(n, np.int32)
    assemble(body + STORE, "u64", declare=declare, module=module).launch(
        (blocks,), (n // blocks,), [out], **options
    )
    return out


def test_loops_of_different_length_and_reconvergence() -> None:
    out = np.zeros(128, np.int32)
    kernel = assemble(
        f"mov.u32 %r1, 0; mov.u32 %r2, %r0;\nLOOP: setp.eq.u32 %p1, %r2, 0; @%p1 bra DONE;\n"
        f"add.u32 %r1, %r1, %r2; sub.u32 %r2, %r2, 1; bra.uni LOOP;\nDONE: {STORE}",
        "u64",
    )
    report = kernel.launch((1,), (128,), [out])
    i = np.arange(128)
    assert (out == i * (i + 1) // 2).all()
    assert report.warp_instructions["st"] == 4  # all lanes of each warp are together again at the store


def test_nested_divergence_and_early_exit() -> None:
    out = run(
        "mov.u32 %r1, 1; and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra EVEN;"
        "and.b32 %r3, %r0, 2; setp.eq.u32 %p2, %r3, 0; @%p2 bra QUIT;"
        "add.u32 %r1, %r1, 10; bra JOIN;\nQUIT: exit;\nEVEN: add.u32 %r1, %r1, 20;\nJOIN: add.u32 %r1, %r1, 100;\n"
    )
    i = np.arange(128)
    assert (out == np.where(i % 2 == 0, 121, np.where(i % 4 == 1, 0, 111))).all()


def test_guarded_write_keeps_the_value_of_the_last_iteration() -> None:
    out = run(
        "mov.u32 %r5, 7; mov.u32 %r2, 0; mov.u32 %r1, 0;\nLOOP: setp.eq.u32 %p1, %r2, 1; @%p1 mov.u32 %r5, 9;"
        "add.u32 %r1, %r1, %r5; mul.lo.u32 %r6, %r2, 100; add.u32 %r1, %r1, %r6; add.u32 %r2, %r2, 1;"
        "setp.lt.u32 %p2, %r2, 3; @%p2 bra LOOP;"
    )
    assert (out == 325).all()


def test_branch_table() -> None:
    out = run(
        "and.b32 %r2, %r0, 3;\nTABLE: .branchtargets A, B, C, D;\nbrx.idx %r2, TABLE;\n"
        "A: mov.u32 %r1, 7; bra.uni END;\nB: mov.u32 %r1, 8; bra.uni END;\nC: mov.u32 %r1, 9; bra.uni END;\n"
        "D: mov.u32 %r1, 10;\nEND:\n"
    )
    assert (out == np.arange(128) % 4 + 7).all()
    with pytest.raises(Fault, match="branch index 3 of 2"):
        run(
            "and.b32 %r2, %r0, 3;\nT: .branchtargets A, B;\nbrx.idx %r2, T;\nA: mov.u32 %r1, 7;\nB: mov.u32 %r1, 8;\n"
        )


def test_scoped_names_and_labels() -> None:
    loop = "{ .reg .pred q; .reg .u32 t; mov.u32 t, 0; AGAIN: add.u32 t, t, 1; setp.lt.u32 q, t, %r0; @q bra AGAIN; add.u32 %r1, %r1, t; }"
    out = run(f"mov.u32 %r1, 0; {loop} {loop}", 64)
    assert (out == 2 * np.maximum(np.arange(64), 1)).all()


def test_function_calls_nest_and_recursion_is_refused() -> None:
    module = """
.func (.param .b32 result) twice(.param .b32 x)
{
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [x];
    add.u32 %r2, %r1, %r1;
    st.param.b32 [result], %r2;
    ret;
}
.func (.param .b32 result) four(.param .b32 x)
{
    .reg .b32 %r<4>;
    .reg .pred %p<2>;
    ld.param.u32 %r1, [x];
    setp.gt.u32 %p1, %r1, 40;
    mov.u32 %r3, 0;
    st.param.b32 [result], %r3;
    @%p1 ret;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), twice, (a); ld.param.b32 %r2, [b]; }
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call.uni (b), twice, (a); ld.param.b32 %r2, [b]; }
    st.param.b32 [result], %r2;
    ret;
}
"""
    call = (
        "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; call (b), four, (a); ld.param.b32 %r1, [b]; }"
    )
    i = np.arange(128)
    assert (run(call, module=module) == np.where(i > 40, 0, 4 * i)).all()
    recursive = ".func f() { call f; ret; }"
    with pytest.raises(PtxError, match="recursion"):
        assemble("call f;", module=recursive)
    with pytest.raises(PtxError, match="direct calls"):
        assemble("call g;", module=recursive)


def test_barrier_orders_shared_memory() -> None:
    out = run(
        "mov.u32 %r3, tile; shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], %r0;"
        "bar.sync 0; xor.b32 %r5, %r0, 127; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r3; ld.shared.u32 %r1, [%r5];",
        declare=".shared .align 16 .b8 tile[512];",
    )
    assert (out == 127 - np.arange(128)).all()


def test_named_barriers_of_half_the_block_run_independently() -> None:
    body = (
        "mov.u32 %r3, tile; shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r3; shr.u32 %r6, %r0, 6; add.u32 %r6, %r6, 1;"
        "st.shared.u32 [%r4], %r0; mov.u32 %r7, 64; {} xor.b32 %r5, %r0, {}; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r3;"
        "ld.shared.u32 %r1, [%r5];"
    )
    declare = ".shared .align 16 .b8 tile[512];"
    assert (run(body.format("bar.sync %r6, %r7;", 63), declare=declare) == np.arange(128) ^ 63).all()
    with pytest.raises(Fault) as caught:  # the other half is not ordered by it
        run(body.format("bar.sync %r6, %r7;", 127), declare=declare)
    assert caught.value.kind == "data race"


def test_arrive_orders_a_producer_before_its_consumer() -> None:
    body = (
        "mov.u32 %r3, tile; setp.ge.u32 %p1, %r0, 32; @%p1 bra CONSUME;"
        "shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], %r0; bar.arrive 1, 64; mov.u32 %r1, 0; bra END;\n"
        "CONSUME: bar.sync 1, 64; sub.u32 %r4, 63, %r0; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r3; ld.shared.u32 %r1, [%r4];\nEND:\n"
    )
    out = run(body, 64, declare=".shared .align 16 .b8 tile[128];")
    assert (out[32:] == np.arange(32)[::-1]).all()


def test_barrier_reductions() -> None:
    out = run(
        "setp.lt.u32 %p1, %r0, 37; bar.red.popc.u32 %r1, 0, %p1; bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, %p1;"
        "@%p2 add.u32 %r1, %r1, 1000; @%p3 add.u32 %r1, %r1, 2000;",
        256, 2,
    )  # fmt: skip
    assert (out == 2037).all()


def test_exited_threads_do_not_hold_a_barrier() -> None:
    out = run("setp.lt.u32 %p1, %r0, 45; @%p1 exit; bar.sync 0; mov.u32 %r1, 5;")
    assert (out[45:] == 5).all() and (out[:45] == 0).all()


def test_deadlocks_tell_where_each_warp_is() -> None:
    body = "setp.lt.u32 %p1, %r0, 64; @%p1 bra A; bar.sync 1; bra END;\nA: bar.sync 2, 128;\nEND: mov.u32 %r1, 0;"
    with pytest.raises(Fault, match=r"(?s)warp 0 .* for barrier 2.*warp 3 .* for barrier 1") as caught:
        run(body)
    assert caught.value.kind == "deadlock"
    with pytest.raises(Fault, match="barrier 0") as caught:  # half of warp 0 never comes
        run("setp.lt.u32 %p1, %r0, 16; @%p1 bra A; bar.sync 0;\nA: bar.sync 1; mov.u32 %r1, 0;", 64)
    assert caught.value.kind == "barrier divergence"


def test_half_a_warp_cannot_fill_a_counted_barrier() -> None:
    body = (
        "setp.ge.u32 %p1, %r0, 32; @%p1 bra WHOLE; setp.ge.u32 %p2, %r0, 16; @%p2 bra OTHER; bar.sync 1, 64; bra END;\n"
        "OTHER: bar.sync 2, 64; bra END;\nWHOLE: bar.sync 1, 64;\nEND: mov.u32 %r1, 0;"
    )
    with pytest.raises(Fault, match=r"warp 0 \(16 threads\) .* barrier 1; .* warp 1 .* barrier 1") as caught:
        run(body, 96)
    assert caught.value.kind == "barrier divergence"


def test_barriers_of_part_of_a_block_order_only_what_came_before() -> None:
    body = (
        "mov.u32 %r3, tile; shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r3; shr.u32 %r6, %r0, 6; add.u32 %r6, %r6, 1;"
        "bar.sync %r6, 64; st.shared.u32 [%r4], %r0; {} xor.b32 %r5, %r4, 128; ld.shared.u32 %r1, [%r5];"
    )
    declare = ".shared .align 512 .b8 tile[512];"
    assert (run(body.format("bar.sync %r6, 64;"), declare=declare) == np.arange(128) ^ 32).all()
    with pytest.raises(Fault) as caught:
        run(body.format(""), declare=declare)
    assert caught.value.kind == "data race"


def test_the_threads_of_a_warp_meet_at_one_aligned_barrier() -> None:
    body = "setp.lt.u32 %p1, %r0, 16; @%p1 bra A; {0} bra END;\nA: {0}\nEND: mov.u32 %r1, 7;"
    with pytest.raises(Fault, match="other threads of this warp are at the barrier of PTX line") as caught:
        run(body.format("bar.sync 0;"), 64)
    assert (caught.value.kind, caught.value.thread) == ("barrier divergence", (15, 0, 0))
    assert (run(body.format("barrier.sync 0;"), 64) == 7).all()


def test_barrier_counts() -> None:
    with pytest.raises(Fault, match="same count") as caught:
        run("setp.lt.u32 %p1, %r0, 32; @%p1 bar.sync 1, 64; @!%p1 bar.sync 1, 128; mov.u32 %r1, 0;")
    assert caught.value.kind == "barrier mismatch"
    with pytest.raises(Fault, match="multiple of the warp size"):
        run("mov.u32 %r2, 40; bar.sync 1, %r2; mov.u32 %r1, 0;")
    with pytest.raises(Fault, match=r"ids are 0\.\.15"):
        run("bar.sync 16; mov.u32 %r1, 0;")
    with pytest.raises(Fault, match="made for 64"):
        run("bar.sync 1, 64; mov.u32 %r1, 0;")


def test_spin_wait_within_a_block_and_between_blocks() -> None:
    wait = "\nWAIT: ld.volatile.global.u32 %r2, [%rd80+{}]; setp.eq.u32 %p2, %r2, 0; @%p2 bra WAIT;\n"
    body = f"""
    setp.ne.u32 %p1, %r92, 0; @%p1 bra OTHERS;
    {wait.format(252)}
    mov.u32 %r3, 1; st.volatile.global.u32 [%rd80+256], %r3; bra END;
OTHERS: setp.ne.u32 %p3, %r92, 63; @%p3 bra LAST;
    mov.u32 %r3, 9; st.volatile.global.u32 [%rd80+252], %r3;
    {wait.format(256).replace("WAIT", "WAIT2")}
LAST:
END: mov.u32 %r1, 3;
    """
    out = np.zeros(65, np.int32)
    assemble(body, "u64").launch((2,), (32,), [out])
    assert (out[63], out[64]) == (9, 1)


def test_spinning_without_hope_is_a_fault() -> None:
    body = (
        "WAIT: ld.volatile.global.u32 %r2, [%rd80]; setp.eq.u32 %p2, %r2, 0; @%p2 bra WAIT; mov.u32 %r1, 0;"
    )
    with pytest.raises(Fault, match=r"warp 0 .* at line") as caught:
        run(body, 64, spin_limit=1000)
    assert caught.value.kind == "no progress"
    with pytest.raises(Fault, match="loop without end"):
        run("FOREVER: add.u32 %r1, %r1, 1; bra FOREVER;", 64, step_limit=1000)


def test_small_batches_give_the_same_results() -> None:
    body = "mov.u32 %r1, %ctaid.y; mad.lo.u32 %r1, %r1, 100, %r90;" + STORE.replace("%rd0", "%rd3")
    kernel = assemble(
        "mov.u32 %r5, %ctaid.y; mov.u32 %r6, %nctaid.x; mad.lo.u32 %r7, %r5, %r6, %r90;"
        "mad.lo.u32 %r7, %r7, 32, %r0; mul.wide.u32 %rd3, %r7, 4;" + body,
        "u64",
    )
    first, second = np.zeros(32 * 35, np.int32), np.zeros(32 * 35, np.int32)
    one = kernel.launch((7, 5), (32,), [first], budget=1)
    other = kernel.launch((7, 5), (32,), [second])
    assert (first == second).all()
    assert first.reshape(5, 7, 32)[4, 6].tolist() == [406] * 32
    assert one.thread_instructions == other.thread_instructions


def test_trap_and_three_dimensional_blocks() -> None:
    with pytest.raises(Fault) as caught:
        kernel = assemble("mov.u32 %r1, %tid.z; setp.eq.u32 %p1, %r1, 1; @%p1 trap;", "u64")
        kernel.launch((1, 1, 2), (4, 3, 2), [np.zeros(4, np.int32)])
    assert (caught.value.kind, caught.value.thread) == ("trap", (0, 0, 1))
    assert caught.value.line == line_of(kernel, "trap")


def test_registers_that_nothing_wrote_are_warned_about() -> None:
    body = "setp.lt.u32 %p1, %r0, 5; @%p1 mov.u32 %r1, 4; @%p1 bra A; mov.u32 %r3, %r2;\nA: add.u32 %r4, %r1, {};"
    kernel = assemble(body.format("%r3"))
    warnings = kernel.launch((1,), (32,), [None]).warnings
    assert [w for w in warnings if "nothing has written" in w] == warnings
    assert len(warnings) == 1 and "mov.u32 %r3, %r2" in warnings[0]
    loop = "mov.u32 %r1, 0;\nL: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 3; @!%p1 bra E; mov.u32 %r2, 1; bra L;\nE: mov.u32 %r3, %r2;"
    assert assemble(loop).launch((1,), (32,), [None]).warnings == []


def test_uniform_loop_with_barriers_keeps_warps_in_step() -> None:
    out = run(
        "mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, tile; shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r3;\n"
        "LOOP: st.shared.u32 [%r4], %r2; bar.sync 0; ld.shared.u32 %r5, [%r3+508]; add.u32 %r1, %r1, %r5; bar.sync 0;"
        "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 9; @%p1 bra LOOP;",
        declare=".shared .align 16 .b8 tile[512];",
    )
    assert (out == 36).all()


def test_tables_of_functions_are_refused_only_where_they_are_called_through() -> None:
    module = ".func helper() { ret; }\n.global .align 8 .u64 table[2] = {helper, 0};"
    out = np.zeros(2, np.uint64)
    body = """
    mov.u64 %rd1, table; ld.global.u64 %rd2, [%rd1]; st.global.u64 [%rd80], %rd2;
    ld.global.u64 %rd3, [%rd1+8]; st.global.u64 [%rd80+8], %rd3;
    """
    assemble(body, module=module).launch((1,), (1,), [out])
    assert out[0] != 0
    assert out[1] == 0
    with pytest.raises(Fault) as caught:
        assemble(body + "ld.u32 %r1, [%rd2];", module=module).launch((1,), (1,), [out])
    assert caught.value.kind == "out of bounds"
    with pytest.raises(PtxError, match="'nobody' is no variable or function"):
        assemble(body, module=module.replace("helper, 0", "nobody, 0"))
