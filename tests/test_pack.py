"""A pack runs where only torch, NumPy and a card are: its package imports nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gen import device, families
from gen.check.case import Case
from gen.compile import compile_source
from gen.pack.tree import decode_compiled, decode_spec, encode_spec
from gen.pack.write import drawn_cases, require_empty, write_pack
from gen.pipeline import prepare, write
from gen.spec import load

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "specs/deepseek_v4_flash/decode_h16.yaml"

# Refuses every package that a machine with a card need not have, then serves a pack to a stand-in for it.
DRIVER = """
import json, sys
from pathlib import Path

ABSENT = {"pydantic", "ruamel", "tilelang", "ml_dtypes", "hypothesis", "typer", "rich", "jinja2", "ruff"}

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"{name} is absent here")

sys.meta_path.insert(0, Refuse())
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
from gen.device import Device
from gen.pack.worker import serve
import gen
assert Path(gen.__file__).is_relative_to(folder), gen.__file__

class Idle:
    def describe(self):
        return Device("stand-in", "stand-in", "sm_90a", 132, 232448, 233472, 2048, 65536, 0)
    def broken(self):
        return False
    def begin(self):
        pass
    def place(self, tensor):
        return tensor
    def unwritten(self, array):
        return array.numel()
    def launch(self, kernel, launch, arguments, written, undefined):
        assert kernel.cubin and set(p.name for p in kernel.parameters) == set(arguments)

for line in serve(folder, Idle(), sys.stdin.read().splitlines()):
    print(line)
"""


@pytest.fixture(scope="module")
def pack(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pack") / "pack"
    (item,) = prepare([SPEC])
    source = tmp_path_factory.mktemp("source")
    write(item.rendered.files, source)
    built = [(item, compile_source(source / "kernel.py", arch="sm_90a"))]
    count = write_pack(built, folder, examples=3, seed=5)
    assert count == 3 + len(item.family.must_test(item.spec))
    return folder


def test_serves_cases_with_nothing_but_torch(pack: Path, tmp_path: Path):
    entry = json.loads((pack / "pack.json").read_text())["specs"][0]
    lines = "".join(f"{entry['spec']['name']} {json.dumps(case)}\n" for case in entry["cases"][:3])
    (tmp_path / "driver.py").write_text(DRIVER)
    command = [sys.executable, str(tmp_path / "driver.py"), str(pack)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        command, input=lines, capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert result.returncode == 0, result.stderr
    ready, *answers = result.stdout.splitlines()
    assert ready == "ready"
    assert len(answers) == 3
    for answer in map(json.loads, answers):
        assert "were never written" in answer["failure"]


def test_a_machine_without_a_card_gets_one_error(pack: Path):
    result = subprocess.run([sys.executable, "run.py"], cwd=pack, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.strip().splitlines()[-1].startswith("error: the process that runs the cases ended")


@pytest.mark.parametrize("path", sorted((ROOT / "specs").rglob("*.yaml")), ids=lambda path: path.stem)
def test_a_decoded_spec_plans_like_the_original(path: Path):
    spec = load(path)
    family = families.module(spec.family)
    restored = decode_spec(json.loads(json.dumps(encode_spec(spec))))
    assert restored.path == path
    card = device.load("h200")
    for case in family.must_test(spec).values():
        assert family.launch_plan(restored, case.sizes, card) == family.launch_plan(spec, case.sizes, card)
    assert family.knobs(restored) == family.knobs(spec)
    assert family.must_test(restored) == family.must_test(spec)


def test_kernels_survive_the_round_trip(pack: Path):
    entry = json.loads((pack / "pack.json").read_text())["specs"][0]
    compiled = decode_compiled(entry["kernels"], pack)
    (kernel,) = compiled.kernels.values()
    assert (kernel.name, kernel.arch, kernel.threads) == ("decode", "sm_90a", 128)
    assert kernel.cubin.startswith(b"\x7fELF")
    assert kernel.parameters


def test_drawn_cases_follow_the_seed():
    spec = load(SPEC)
    family = families.module(spec.family)
    first = drawn_cases(spec, family, 5, seed=1)
    assert first == drawn_cases(spec, family, 5, seed=1) != drawn_cases(spec, family, 5, seed=2)
    assert all(isinstance(case, Case) for case in first)
    assert drawn_cases(spec, family, 0, seed=1) == []


def test_a_full_folder_is_refused(tmp_path: Path):
    require_empty(tmp_path / "absent")
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="must be empty"):
        require_empty(tmp_path)
