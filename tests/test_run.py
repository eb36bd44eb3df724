"""Kernels get what they declare, in compiled order; the interpreter keeps to what they may write."""

from dataclasses import dataclass, field

import pytest
import torch

from gen.compile import Compiled, Kernel, Parameter
from gen.plan import Launch, LaunchPlan, Scratch, plan_splits
from gen.run import RunError, run
from gen.run.interpreter import Interpreter
from gen.spec import SplitWord

STORE = """
.version 9.0
.target sm_120a
.address_size 64
.visible .entry store_kernel(.param .u64 out, .param .u64 source, .param .u32 count)
{
    .reg .pred %p;
    .reg .b32 %r<4>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [TARGET];
    cvta.to.global.u64 %rd1, %rd1;
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra done;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;
done:
    ret;
}
"""


def _kernel(name: str, parameters: str, ptx: str = "") -> Kernel:
    declared = tuple(Parameter(word, "pointer") for word in parameters.split())
    return Kernel(
        name, f"{name}_kernel", "sm_120a", "", ptx, b"", declared, 32, 16, 0, 0, 0, 0, 0
    )  # fmt: skip


@dataclass
class Recorder:
    """An executor that only notes what it is asked to do."""

    begun: int = 0
    launches: list = field(default_factory=list)

    def begin(self):
        self.begun += 1

    def launch(self, kernel, launch, arguments, written, undefined):
        self.launches.append((kernel.name, launch.grid, list(arguments.items()), written, undefined))

    def place(self, tensor):
        return tensor

    def unwritten(self, array):
        return 0


ONE = plan_splits(SplitWord.NONE, tiles=1, rows=1, slots=1)
PLAN = LaunchPlan(
    ONE,
    (Launch("first", (3, 2, 1), 32), Launch("second", (1, 1, 1), 32)),
    {"count": 7},
    {"partial": Scratch((4,), "float32"), "arrivals": Scratch((2,), "int32", zeroed=True)},
)


def _tensors():
    scratch = {"partial": torch.zeros(4), "arrivals": torch.zeros(2, dtype=torch.int32)}
    return {"q": torch.ones(2)}, {"out": torch.zeros(3)}, scratch


def test_each_kernel_takes_its_declared_arguments_in_the_compiled_order():
    kernels = {
        "second": _kernel("second", "out partial"),
        "first": _kernel("first", "count partial q arrivals"),
    }
    arguments, outputs, scratch = _tensors()
    recorder = Recorder()
    run(recorder, Compiled(kernels, "sm_120a", 0.0, True), PLAN, arguments, outputs, scratch)
    (one, grid, taken, written, undefined), (two, _, also_taken, _, _) = recorder.launches
    assert (one, two, grid, recorder.begun) == ("first", "second", (3, 2, 1), 1)
    assert [name for name, _ in taken] == ["count", "partial", "q", "arrivals"]
    assert [name for name, _ in also_taken] == ["out", "partial"]
    assert dict(taken)["count"] == 7
    assert dict(taken)["q"] is arguments["q"]
    assert dict(taken)["partial"] is dict(also_taken)["partial"] is scratch["partial"]
    assert written == {"out", "partial", "arrivals"}
    assert undefined == {"out", "partial"}, "zeroed scratch starts defined"


def test_an_argument_that_nobody_provides():
    compiled = Compiled({"first": _kernel("first", "nobody")}, "sm_120a", 0.0, True)
    with pytest.raises(KeyError, match="nobody"):
        run(Recorder(), compiled, PLAN, *_tensors())


def _stored(target: str, count: int, executor: Interpreter) -> dict[str, torch.Tensor]:
    kernel = _kernel("store", "out source count", STORE.replace("TARGET", target))
    plan = LaunchPlan(ONE, (Launch("store", (1, 1, 1), 32),), {"count": count})
    outputs = {"out": torch.full((8,), -1, dtype=torch.int32)}
    arguments = {"source": torch.full((8,), -1, dtype=torch.int32)}
    run(executor, Compiled({"store": kernel}, "sm_120a", 0.0, True), plan, arguments, outputs, {})
    return outputs | arguments


def test_the_interpreter_runs_and_reports():
    executor = Interpreter()
    for _ in range(2):
        tensors = _stored("out", 8, executor)
        assert tensors["out"].tolist() == list(range(8))
        assert executor.unwritten(tensors["out"]) == 0
        assert len(executor.reports) == 1, "reports of an earlier operation"


def test_the_interpreter_counts_unwritten_elements():
    executor = Interpreter()
    assert executor.unwritten(_stored("out", 8, executor)["out"]) == 0
    assert executor.unwritten(_stored("out", 5, executor)["out"]) == 3, "begin did not forget earlier writes"
    assert executor.unwritten(_stored("out", 0, executor)["out"]) == 8


def test_the_interpreter_refuses_a_write_to_an_input():
    with pytest.raises(RunError, match="read-only"):
        _stored("source", 8, Interpreter())


def test_the_interpreter_refuses_a_write_beyond_an_output():
    with pytest.raises(RunError, match="bounds"):
        _stored("out", 9, Interpreter())
