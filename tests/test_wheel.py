"""A wheel built from the project works outside the checkout, with its own templates and devices."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "specs/deepseek_v4_flash/decode_window_h64.yaml"


def _run(*command: object, cwd: Path, **env: str) -> str:
    result = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The wheel alone in a folder; its dependencies are those of this environment."""
    target = tmp_path_factory.mktemp("site")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        target,
        wheel,
    ]
    _run(*install, cwd=target)
    return target


def test_the_wheel_holds_the_package_its_templates_and_devices(wheel):
    assert wheel.name.startswith("sm120_kernelgen-")
    names = set(zipfile.ZipFile(wheel).namelist())
    code = {str(path.relative_to(ROOT)) for end in ("py", "md") for path in (ROOT / "gen").rglob(f"*.{end}")}
    devices = {str(path.relative_to(ROOT)) for path in (ROOT / "gen/devices").iterdir()}
    templates = {
        f"gen/{path.relative_to(ROOT)}" for path in (ROOT / "templates").rglob("*") if path.is_file()
    }
    assert devices
    assert any(name.endswith(".j2") for name in templates)
    information = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert names - information == code | devices | templates
    assert {name.split("/")[-1] for name in information} >= {"METADATA", "LICENSE", "entry_points.txt"}


def test_it_builds_a_spec_outside_the_checkout(installed, tmp_path):
    spec = tmp_path / "my_spec.yaml"
    spec.write_text(SHIPPED.read_text().replace("dsv4_flash_window_h64", "my_window"))

    def kgen(*arguments: object) -> str:
        return _run(
            sys.executable, installed / "bin/kgen", *arguments, cwd=tmp_path, PYTHONPATH=str(installed)
        )

    where = "import gen, gen.render; print(gen.__file__, gen.render.template_folder())"
    for path in _run(sys.executable, "-c", where, cwd=tmp_path, PYTHONPATH=str(installed)).split():
        assert Path(path).is_relative_to(installed), "the checkout was imported"

    (row,) = json.loads(kgen("build", "my_spec.yaml", "--out", "kernels", "--json"))
    assert (row["name"], row["kernel"], row["spill_bytes"]) == ("my_window", "decode", 0)
    assert {path.name for path in (tmp_path / "kernels/my_window").iterdir()} == {
        "kernel.py",
        "manifest.json",
    }
    source = (tmp_path / "kernels/my_window/kernel.py").read_text()
    assert source.splitlines()[1].startswith("# Generated from my_spec.yaml ")
    shipped = (ROOT / "build/dsv4_flash_window_h64/kernel.py").read_text()
    assert source.splitlines()[2:] == shipped.splitlines()[2:]
    (state,) = json.loads(kgen("list", "my_spec.yaml", "--out", "kernels", "--json"))
    assert state["state"] == "current"
    (plan,) = json.loads(kgen("check", "my_spec.yaml", "--device", "dgx_spark", "--json"))
    assert plan["device"] == "dgx_spark"
