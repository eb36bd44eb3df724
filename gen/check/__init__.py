"""Checking kernels: cases, properties, and the fuzzer that draws one and checks the other."""
