"""Compiles the cases for sm_90a, one cubin a group: `python -m tests.conformance.build FOLDER`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gen.compile.toolchain import find_toolchain
from tests.conformance.case import module_text
from tests.conformance.cases import GROUPS


def main(folder: Path) -> None:
    """Writes GROUP.ptx and GROUP.cubin. Raises CalledProcessError where ptxas refuses a case."""
    folder.mkdir(parents=True, exist_ok=True)
    ptxas = find_toolchain().ptxas
    for group, cases in GROUPS.items():
        source = folder / f"{group}.ptx"
        source.write_text(module_text(cases, "sm_90a"))
        subprocess.run([ptxas, "-arch=sm_90a", "-o", source.with_suffix(".cubin"), source], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
