"""Fuzzing on a card, with a stand-in for the process that owns one."""

from pathlib import Path

import pytest
import torch

from gen.check import on_cuda
from gen.check.case import Case
from gen.pipeline import prepare
from gen.run import RunError

ROOT = Path(__file__).parents[1]
SPECS = ["specs/deepseek_v4_flash/decode_h16.yaml", "specs/deepseek_v4_flash/decode_window_h64.yaml"]


class Cards:
    """Answers that every case passes but those of a length that crashed once."""

    def __init__(self, folder):
        self.stopped, self.seen = False, []
        Cards.last = self
        assert (folder / "pack.json").is_file()

    def check(self, name, case: Case):
        self.seen.append((name, case))
        failure = f"{name}: the process that ran this case ended" if case.sizes["main_width"] == 1 else None
        return {"failure": failure, "distances": {} if failure else {"out": {"rms": 0.25}}}

    def stop(self):
        self.stopped = True


def test_a_crash_fails_its_case_and_the_run_goes_on(monkeypatch):
    monkeypatch.setattr(on_cuda, "Worker", Cards)
    ticks = []
    prepared = prepare([ROOT / path for path in SPECS])
    results = on_cuda.fuzz_on_cuda(
        prepared, "sm_90a", examples=2, seed=1, on_progress=lambda done, due: ticks.append((done, due))
    )
    due = sum(len(item.family.must_test(item.spec)) + 2 for item in prepared)
    assert len(Cards.last.seen) == due
    assert Cards.last.stopped
    assert ticks[-1] == (due + 2, due + 2)
    for name, result in results.items():
        assert result.failure == f"{name}: the process that ran this case ended"
        assert result.worst == {"out": 0.25}


def test_what_the_card_cannot_run_is_listed(monkeypatch):
    monkeypatch.setattr(on_cuda, "Worker", Cards)
    prepared = prepare([ROOT / SPECS[1], ROOT / "specs/deepseek_v4_flash/wq_b.yaml"])
    results = on_cuda.fuzz_on_cuda(prepared, "sm_90a", examples=0, seed=1)
    left = results["dsv4_flash_wq_b"]
    assert left.not_run == "its instructions need sm_120a or sm_121a, not sm_90a"
    assert (left.examples, left.failure) == (0, None)
    assert {name for name, _ in Cards.last.seen} == {"dsv4_flash_window_h64"}


def test_one_case(monkeypatch):
    monkeypatch.setattr(on_cuda, "Worker", Cards)
    (item,) = prepare([ROOT / SPECS[1]])
    case = item.family.must_test(item.spec)["whole_tile"]
    (result,) = on_cuda.fuzz_on_cuda([item], "sm_90a", examples=9, seed=1, case=case).values()
    assert (result.examples, result.failure) == (1, None)
    assert [seen for _, seen in Cards.last.seen] == [case]


@pytest.mark.parametrize(
    ("capability", "arch"), [((12, 0), "sm_120a"), ((12, 1), "sm_121a"), ((9, 0), "sm_90a"), ((8, 0), None)]
)
def test_the_card_decides_the_architecture(monkeypatch, capability, arch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(on_cuda.importlib.util, "find_spec", lambda name: object())
    if arch:
        assert on_cuda.card_arch() == arch
    else:
        with pytest.raises(RunError, match=r"capability \(8, 0\), not one of 12.0, 12.1, 9.0"):
            on_cuda.card_arch()


def test_no_card_is_said(monkeypatch):
    monkeypatch.setattr(on_cuda.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RunError, match="no CUDA card here; use --on interpreter, or kgen pack"):
        on_cuda.card_arch()
    monkeypatch.setattr(on_cuda.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RunError, match="cuda-bindings is not installed"):
        on_cuda.card_arch()
