"""Compiled kernels with their properties, in a folder that another machine runs with one command."""
