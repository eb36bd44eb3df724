"""The JSON schema of all families' specs, for editors."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from gen import families


def schema() -> dict[str, Any]:
    """A JSON schema (draft 2020-12) that accepts a spec of any family."""
    models = [families.model(name) for name in families.names()]
    references, document = models_json_schema([(model, "validation") for model in models])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Kernel spec",
        "oneOf": [references[model, "validation"] for model in models],
        **document,
    }


def write_schema(path: Path) -> None:
    """Writes `schema()` to `path`; the same models always give the same bytes."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(schema(), indent=2, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(path)
