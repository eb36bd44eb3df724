"""Making a pack: cubins, specs as JSON, cases, and the part of this package that runs them."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import hypothesis
from hypothesis import HealthCheck, Phase

from gen.check.case import Case
from gen.check.strategies import cases
from gen.compile.result import Compiled
from gen.pack.tree import encode_kernel, encode_spec
from gen.pipeline import Prepared
from gen.spec import KernelSpec

PACK_FILE, RUN_FILE = "pack.json", "run.py"
RUN_TEXT = '''"""Run the packed kernels' properties on this machine's card: python run.py [--help]."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gen.pack.run import main

sys.exit(main(Path(__file__).resolve().parent))
'''


def drawn_cases(spec: KernelSpec, family: ModuleType, examples: int, seed: int) -> list[Case]:
    """The cases that the fuzzer draws for a seed."""
    drawn: list[Case] = []
    settings = hypothesis.settings(
        max_examples=max(examples, 1),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    given = hypothesis.given(case=cases(spec, family))
    hypothesis.seed(seed)(settings(given(lambda case: drawn.append(case))))()
    return drawn[:examples]


def require_empty(folder: Path) -> None:
    """Raise FileExistsError where a pack cannot go because something is there."""
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(errno.EEXIST, "the folder of a pack must be empty", str(folder))


def write_pack(built: Sequence[tuple[Prepared, Compiled]], folder: Path, *, examples: int, seed: int) -> int:
    """Fill `folder`; the number of cases, the must-test ones of each spec and `examples` drawn ones."""
    (folder / "cubins").mkdir(parents=True)
    entries, count = [], 0
    for item, compiled in built:
        kernels = []
        for kernel in compiled.kernels.values():
            cubin = f"cubins/{item.spec.name}.{kernel.name}.{kernel.arch}.cubin"
            (folder / cubin).write_bytes(kernel.cubin)
            kernels.append(encode_kernel(kernel, cubin))
        chosen = [*item.family.must_test(item.spec).values()]
        chosen += drawn_cases(item.spec, item.family, examples, seed)
        count += len(chosen)
        entries.append(
            {
                "spec": encode_spec(item.spec),
                "kernels": kernels,
                "cases": [json.loads(case.to_json()) for case in chosen],
            }
        )
    package = Path(__file__).resolve().parents[1]
    shutil.copytree(package, folder / "gen", ignore=shutil.ignore_patterns("__pycache__", "templates"))
    (folder / RUN_FILE).write_text(RUN_TEXT)
    (folder / PACK_FILE).write_text(json.dumps({"specs": entries}, indent=1) + "\n")
    return count
