"""Checks of numbers that the cost models share: one clear ValueError, no overflow.

Scalars pass through as they are, exact rationals included. Arrays (anything with a
``dtype``) become arrays of float64, so that integers cannot wrap round.
"""

from __future__ import annotations

import math
from numbers import Integral, Rational, Real
from typing import Any

import numpy as np

LARGEST = 10**30  # no quantity of this book comes near; products stay finite
MOST = 10**12  # things one can count


def number(
    name: str,
    value: Any,
    *,
    above_zero: bool = False,
    low: Real = 0,
    high: Real | None = None,
) -> Any:
    """``value`` if it is finite and from ``low`` (or above 0) to ``high``."""
    wanted = "a finite number "
    wanted += "greater than 0" if above_zero else f"{low:g} or more"
    if high is not None:
        wanted += f" and at most {high:g}"
    if isinstance(value, np.ndarray):
        try:
            values = value.astype(np.float64)
        except (TypeError, ValueError):
            values = np.array([np.nan])
        bad = ~np.isfinite(values) | (values < low) | (values > (high or LARGEST))
        if above_zero:
            bad |= values == 0
        if value.dtype == bool or bad.any():
            culprit = value.ravel()[int(np.argmax(bad))] if value.size else value
            raise ValueError(f"{name} must be {wanted}, everywhere; got {culprit!r}")
        return values
    value = value.item() if isinstance(value, np.generic) else value
    good = isinstance(value, Real) and not isinstance(value, bool)
    good = good and (isinstance(value, Rational) or math.isfinite(value))
    if not good or value < low or (above_zero and value == 0):
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    if value > (LARGEST if high is None else high):
        wanted = wanted if high is not None else f"at most {float(LARGEST):g}"
        raise ValueError(f"{name} must be {wanted}, got {_short(value)}")
    return value


def whole(
    name: str, value: Any, *, low: int = 1, high: int = MOST, what: str = ""
) -> Any:
    """``value`` if it is a whole number from ``low`` to ``high``, or an array of them.

    ``what`` names the thing counted: "ranks".
    """
    wanted = f"a whole number of {what}, " if what else "a whole number, "
    wanted += f"{low} or more"
    if isinstance(value, np.ndarray):
        values = number(name, value, low=low)
        bad = (values != np.floor(values)) | (values > high)
        if bad.any():
            culprit = value.ravel()[int(np.argmax(bad))]
            raise ValueError(
                f"{name} must be {wanted} and at most {high:,}, everywhere; "
                f"got {culprit!r}"
            )
        return values
    value = value.item() if isinstance(value, np.generic) else value
    good = isinstance(value, Integral) and not isinstance(value, bool)
    if not good or value < low:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    if value > high:
        raise ValueError(f"{name} must be at most {high:,}, got {_short(value)}")
    return value


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise unless ``value`` is one of the words ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")


def _short(value: Any) -> str:
    return repr(value) if value < 10**40 else "a number of more than 40 digits"
