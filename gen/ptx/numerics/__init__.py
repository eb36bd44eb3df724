"""PTX arithmetic on NumPy arrays: pure functions, bit-exact where the PTX ISA is, without NumPy warnings.

Registers of `.f32` and `.f64` are floating-point arrays; narrower formats and `.tf32` are raw unsigned bits.
"""
