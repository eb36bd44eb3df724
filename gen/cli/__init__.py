"""The command `kgen`."""

from gen.cli.app import main

__all__ = ["main"]
