"""Exact oracles: rounding of fractions to a binary format, and by search in a table of all values."""

import math
from fractions import Fraction

import numpy as np

# significant bits, exponents of the smallest and the largest normal
F32 = (24, -126, 127)
F64 = (53, -1022, 1023)
F16 = (11, -14, 15)
BF16 = (8, -126, 127)


def round_exact(x: Fraction, fmt: tuple[int, int, int], mode: str) -> float:
    """x rounded once by IEEE 754; the zero of an underflow keeps the sign of x."""
    precision, emin, emax = fmt
    if x == 0:
        return 0.0
    size, negative = abs(x), x < 0
    e = size.numerator.bit_length() - size.denominator.bit_length()
    e -= size < Fraction(2) ** e
    quantum = Fraction(2) ** (max(e, emin) - precision + 1)
    n, rest = divmod(size, quantum)
    if mode == "rn":
        up = rest * 2 > quantum or (rest * 2 == quantum and n % 2 == 1)
    else:
        up = rest > 0 and ((mode == "rp" and not negative) or (mode == "rm" and negative))
    rounded = (n + up) * quantum
    largest = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** emax
    if rounded > largest:
        away = {"rn": True, "rz": False, "rm": negative, "rp": not negative}[mode]
        result = math.inf if away else float(largest)
    else:
        result = float(rounded)
    return -result if negative else result


def same(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Equal bits, or both NaN."""
    unsigned = f"u{got.dtype.itemsize}"
    return (got.view(unsigned) == wanted.view(unsigned)) | (np.isnan(got) & np.isnan(wanted))


def round_by_table(x: np.ndarray, table: np.ndarray, mode: str) -> np.ndarray:
    """Magnitude codes of x in an ascending table of the finite values; len(table) means overflow."""
    size = np.abs(x)
    values = np.append(table.astype(np.float64), 2 * float(table[-1]) - float(table[-2]))
    lower = np.minimum(np.searchsorted(values, size, side="right") - 1, len(table))
    upper = np.minimum(lower + 1, len(table))
    below, above = size - values[lower], values[upper] - size  # exact: neighbours share an exponent range
    if mode == "rn":
        up = (above < below) | ((above == below) & (lower % 2 == 1))
    elif mode == "rna":
        up = above <= below
    elif mode == "rz":
        up = np.zeros(x.shape, dtype=bool)
    else:
        up = np.signbit(x) == (mode == "rm")
    return np.where((below == 0) | ~up, lower, upper)
