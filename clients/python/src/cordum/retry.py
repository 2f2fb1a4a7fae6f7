"""Delays between tries of a request."""

from __future__ import annotations

import random
from typing import Optional

_RANDOM = random.SystemRandom()


def full_jitter_s(tries: int, base_s: float, max_s: float) -> float:
    """Uniform in [0, min(base·2^tries, max)]; `tries` counts from 1."""
    return _RANDOM.uniform(0, min(base_s * 2 ** min(tries, 32), max_s))


def delay_s(tries: int, retry_after_ms: Optional[int], base_s: float = 0.1, max_s: float = 10.0) -> float:
    """A delay named by the server is a lower bound, spread by a quarter so that clients do not return together."""
    if retry_after_ms is None:
        return full_jitter_s(tries, base_s, max_s)
    floor_s = retry_after_ms / 1_000
    return _RANDOM.uniform(floor_s, floor_s * 1.25)
