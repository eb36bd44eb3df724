"""A valid spec to edit, and a way to load edited text."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gen.spec import KernelSpec, load

Load = Callable[[str | bytes], KernelSpec]


@pytest.fixture(scope="session")
def valid() -> str:
    """The text of a spec with two caches."""
    return Path(__file__).with_name("valid.yaml").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def load_text(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Loads text from a file called x.yaml."""
    path = tmp_path_factory.mktemp("specs") / "x.yaml"

    def load_it(text: str | bytes) -> KernelSpec:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load(path)

    return load_it
