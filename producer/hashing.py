"""Draw random numbers as a function of (seed, purpose, number), so any slice can be drawn alone."""

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


def uniform(seed: int, purpose: str, numbers: Ints) -> Floats:
    """Return a number in [0, 1) for each given number, by splitmix64 with the number as counter."""
    key = _mix((seed & _MASK) ^ _mix(zlib.crc32(purpose.encode()) + _GAMMA))
    z = numbers.astype(np.uint64)
    z *= np.uint64(_GAMMA)
    z += np.uint64(key)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z ^= z >> np.uint64(shift)
        z *= np.uint64(factor)
    z ^= z >> np.uint64(31)
    z >>= np.uint64(11)
    fractions: Floats = z.astype(np.float64)
    fractions *= 2.0**-53
    return fractions


def one_in_each_block(share: float, seed: int, purpose: str, numbers: Ints) -> tuple[Bools, Ints]:
    """Choose one number in each block of 1/share consecutive ones, at a place that the seed draws.

    The draws are stratified rather than independent, so that the share is exact and the first
    chosen number comes soon. Returns which numbers are chosen, and each number's block (0, 1, ...).
    """
    blocks = np.floor(numbers * share).astype(np.int64)
    first = np.ceil(blocks / share).astype(np.int64)
    length = np.ceil((blocks + 1) / share).astype(np.int64) - first
    place = (uniform(seed, purpose, blocks) * length).astype(np.int64)
    return numbers == first + place, blocks


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def none_of(numbers: NDArray[Any]) -> Bools:
    """Return a mask that selects nothing."""
    return np.zeros(len(numbers), dtype=np.bool_)
