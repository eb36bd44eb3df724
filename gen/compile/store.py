"""The content-keyed cache of compiled kernels: one file an entry, put in place by rename."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gen.compile.result import CompileError, Kernel, Parameter

# Scratch folders this old were left by killed processes, and logs this old have been read.
KEEP_SECONDS = 7 * 24 * 3600


def default_cache() -> Path:
    """`$KGEN_CACHE`, else `kgen` in `$XDG_CACHE_HOME`, else `~/.cache/kgen`."""
    if chosen := os.environ.get("KGEN_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kgen"


def content_key(parts: Iterable[tuple[str, bytes]]) -> str:
    """SHA-256 over named byte strings, each with its length, so that no two lists of parts collide."""
    digest = hashlib.sha256()
    for name, content in parts:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


class Store:
    """Entries `<key>.json`, scratch folders and kept logs of failures under one folder."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which is created on the first write."""
        self.folder = folder.absolute()

    def load(self, key: str) -> dict[str, Kernel] | None:
        """The kernels under `key`; None where there is no entry, a damaged one, or one of another form.

        A program whose files were edited while it ran writes entries of another form.
        """
        try:
            digest, _, body = self._entry(key).read_bytes().partition(b"\n")
        except OSError:
            return None
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return None
        try:
            return {name: _decode(fields) for name, fields in json.loads(body).items()}
        except (KeyError, TypeError):
            return None

    def save(self, key: str, kernels: dict[str, Kernel], scratch: Path) -> None:
        """Write an entry inside `scratch` and rename it into place; the last of several writers wins.

        Raises CompileError where the cache cannot be written, as `keep` and `scratch` do.
        """
        body = json.dumps({name: _encode(kernel) for name, kernel in kernels.items()}).encode()
        written = scratch / "entry.json"
        with self._writing():
            written.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            written.replace(self._entry(key))

    def keep(self, key: str, scratch: Path) -> Path:
        """Keep the scratch folder of a failed compilation for its user to read; returns its new place."""
        with self._writing():
            kept = Path(self._new_folder("failed", key[:12] + "-"))
            shutil.copytree(scratch, kept, dirs_exist_ok=True)
        return kept

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A new folder on the cache's file system, removed at the end; old ones are swept."""
        with self._writing():
            folder = self._new_folder("scratch", "")
        try:
            yield Path(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _new_folder(self, kind: str, prefix: str) -> str:
        base = self.folder / kind
        base.mkdir(parents=True, exist_ok=True)
        _sweep(base)
        return tempfile.mkdtemp(dir=base, prefix=prefix)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CompileError(
                f"The compile cache {self.folder} cannot be written: {error.strerror or error}. Set "
                "KGEN_CACHE to a folder that can."
            ) from error

    def _entry(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def _sweep(base: Path) -> None:
    for path in base.iterdir():
        try:
            old = path.stat().st_mtime < time.time() - KEEP_SECONDS
        except FileNotFoundError:  # another process finished with it
            continue
        if old:
            shutil.rmtree(path, ignore_errors=True)


def _encode(kernel: Kernel) -> dict[str, Any]:
    return dataclasses.asdict(kernel) | {"cubin": base64.b64encode(kernel.cubin).decode()}


def _decode(fields: dict[str, Any]) -> Kernel:
    parameters = tuple(Parameter(**parameter) for parameter in fields["parameters"])
    code = base64.b64decode(fields["cubin"])
    return Kernel(**fields | {"parameters": parameters, "cubin": code, "mma": tuple(fields["mma"])})
