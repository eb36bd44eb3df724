"""From a planned spec to the text of its kernel, byte for byte the same wherever and whenever it runs."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import jinja2
from ruff import find_ruff_bin

from gen.plan import TilePlan
from gen.spec import KernelSpec
from gen.spec.errors import printable

LICENSE = "Apache-2.0"
GENERATOR = "sm120-kernelgen"
LINE_LENGTH = 110
DSL_PACKAGES = {"tilelang": "tilelang", "cutlass": "nvidia-cutlass-dsl"}
SOURCE, MANIFEST = "kernel.py", "manifest.json"


@dataclass(frozen=True)
class Rendered:
    """The files of `build/<name>/` by file name, and the names of the kernels that they define."""

    name: str
    files: dict[str, str]
    kernels: tuple[str, ...]


def template_folder() -> Path:
    """`templates/`, beside the package in a checkout and inside it when installed."""
    package = Path(__file__).resolve().parent
    inside = package / "templates"
    return inside if inside.is_dir() else package.parent / "templates"


def render(spec: KernelSpec, plan: TilePlan, *, templates: jinja2.BaseLoader | None = None) -> Rendered:
    """The generated source and manifest of a spec; `templates` replaces the shipped ones in tests.

    Raises SpecError where the family has no template for the spec's backend.
    """
    backend = str(spec.backend)
    loader = templates or jinja2.FileSystemLoader(template_folder() / backend)
    environment = jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    try:
        template_text, *_ = loader.get_source(environment, plan.template)
    except jinja2.TemplateNotFound as error:
        others = sorted(path.parent.name for path in template_folder().glob(f"*/{plan.template}"))
        reason = f"the family {spec.family} has no template for {backend}"
        raise spec.error("backend", reason, f"use {' or '.join(others)}") from error
    provenance = {
        "name": spec.name,
        "spec": _portable_path(spec.path),
        "spec_sha256": spec.digest,
        "template": f"templates/{backend}/{plan.template}",
        "template_sha256": hashlib.sha256(template_text.encode()).hexdigest(),
        "generator": f"{GENERATOR} {metadata.version(GENERATOR)}",
        "dsl": f"{DSL_PACKAGES[backend]} {metadata.version(DSL_PACKAGES[backend])}",
        "license": LICENSE,
    }
    body = environment.get_template(plan.template).render(plan.context)
    source = _formatted(f"{_header(provenance)}\n{body.strip()}\n")
    manifest = {
        **provenance,
        "family": spec.family,
        "backend": backend,
        "target": str(spec.target),
        "kernels": list(plan.kernels),
        "threads": plan.threads,
        "planned_shared_bytes": plan.shared_bytes,
        "source_sha256": hashlib.sha256(source.encode()).hexdigest(),
    }
    files = {SOURCE: source, MANIFEST: json.dumps(manifest, indent=2) + "\n"}
    return Rendered(spec.name, files, plan.kernels)


def write(files: Mapping[str, str], folder: Path) -> list[str]:
    """Write files into `folder`, atomically and only where they differ; the names that changed."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for name, text in files.items():
        path, data = folder / name, text.encode()
        if path.is_file() and path.read_bytes() == data:
            continue
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        changed.append(name)
    return changed


def _header(provenance: Mapping[str, str]) -> str:
    return "\n".join(
        [
            f"# SPDX-License-Identifier: {provenance['license']}",
            f"# Generated from {provenance['spec']} (sha256 {provenance['spec_sha256'][:16]})",
            f"# through {provenance['template']} (sha256 {provenance['template_sha256'][:16]})",
            f"# by {provenance['generator']} for {provenance['dsl']}. Edit the spec and run `kgen build`.",
        ]
    )


def _portable_path(path: Path) -> str:
    """The path from the last folder named `specs` on, else the file name: nothing of the machine."""
    parts = path.resolve().parts
    start = len(parts) - 1 - parts[::-1].index("specs") if "specs" in parts else len(parts) - 1
    return printable("/".join(parts[start:]))


def _formatted(source: str) -> str:
    command = [find_ruff_bin(), "format", "--isolated", f"--line-length={LINE_LENGTH}", "-"]
    result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ValueError(f"the template gave text that is not Python: {result.stderr.strip()}")
    return result.stdout
