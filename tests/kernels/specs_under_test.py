"""The specs whose kernels are tested: all that ship, and some for what no shipped one has."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SPECS = sorted([*(ROOT / "specs").rglob("*.yaml"), *(ROOT / "tests/kernels/specs").glob("*.yaml")])
