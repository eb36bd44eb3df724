"""Lower the kernels of one generated source: a program, run in a process of its own.

    python lower.py BACKEND SOURCE FOLDER

Writes `FOLDER/<kernel>.cu` or `FOLDER/<kernel>.ptx` for each kernel and `FOLDER/lowered.json`: either
{"kernels": [...], "flags": [...]} or {"error": {"kernel", "line", "message"}} with exit status 1 and the
traceback on stderr. `lower_<backend>.py` beside it does the lowering. They import nothing of this project, so
what they do depends on the source and its DSL alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any


def load(source: Path) -> ModuleType:
    """Import a source from its own path, which the DSLs read the kernels' text from."""
    spec = importlib.util.spec_from_file_location("generated_kernels", source)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} is not a Python source")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def plain_text(error: BaseException) -> str:
    """An error's text without terminal colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", str(error))


def source_line(error: BaseException, source: Path) -> int | None:
    """The last line of `source` in an error's traceback, or the first that its text names."""
    if isinstance(error, SyntaxError) and error.filename == str(source):
        return error.lineno
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(source)]
    named = re.search(rf"{re.escape(str(source))}:(\d+)", plain_text(error))
    return int(named[1]) if named else lines[-1] if lines else None


def main(backend: str, source: Path, folder: Path) -> int:
    """Lower every kernel of `source` into `folder`; 0, or 1 after writing the error."""
    kernel: str | None = None
    try:
        dsl: Any = importlib.import_module(f"lower_{backend}")
        # A program started by path finds its own folder first; the source must not import from there.
        sys.path.pop(0)
        module = load(source)
        lowered = []
        for kernel, function in dsl.kernels(module):
            lowered.append({"name": kernel, **dsl.lower(module, kernel, function, folder)})
        answer: dict[str, Any] = {"kernels": lowered, "flags": dsl.flags(module)}
    except Exception as error:
        traceback.print_exc()
        message = next((line for line in plain_text(error).splitlines() if line.strip()), "")
        answer = {
            "error": {
                "kernel": kernel,
                "line": source_line(error, source),
                "message": f"{type(error).__name__}: {message}",
            }
        }
    (folder / "lowered.json").write_text(json.dumps(answer), encoding="utf-8")
    return int("error" in answer)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
