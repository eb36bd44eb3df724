"""The interpreter stands alone: a copy of its folder, with NumPy and nothing else, runs its README."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import gen.ptx

FOLDER = Path(gen.ptx.__file__).parent
CHECKS = """
import importlib, pkgutil, sys
for name in ("torch", "ml_dtypes", "pydantic", "typer", "rich", "jinja2", "hypothesis", "tilelang"):
    sys.modules[name] = None  # importing one fails
import gen.ptx
assert gen.ptx.__file__.startswith({folder!r}), gen.ptx.__file__
for module in pkgutil.walk_packages(gen.ptx.__path__, "gen.ptx."):
    importlib.import_module(module.name)
strangers = [name for name in sys.modules if name.startswith("gen.") and not name.startswith("gen.ptx")]
assert not strangers, strangers
{readme}
"""


def test_a_copied_folder_runs_its_readme(tmp_path: Path) -> None:
    (tmp_path / "gen").mkdir()
    (tmp_path / "gen/__init__.py").touch()
    shutil.copytree(FOLDER, tmp_path / "gen/ptx", ignore=shutil.ignore_patterns("__pycache__"))
    (readme,) = re.findall(r"```python\n(.*?)```", (FOLDER / "README.md").read_text(), re.S)
    (tmp_path / "checks.py").write_text(CHECKS.format(folder=str(tmp_path), readme=readme))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "checks.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
