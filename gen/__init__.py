"""Kernel generator for Blackwell workstation cards: spec → plan → render → compile → run → check."""
