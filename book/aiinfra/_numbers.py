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
        values = _floats(name, value, wanted)
        bad = ~np.isfinite(values) | (values < low) | (values > (high or LARGEST))
        if above_zero:
            bad |= values == 0
        _refuse(name, values, bad, wanted)
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
        values = _floats(name, value, wanted)
        bad = (values != np.floor(values)) | (values < low) | (values > high)
        _refuse(name, values, bad, f"{wanted} and at most {high:,}")
        return values
    value = value.item() if isinstance(value, np.generic) else value
    good = isinstance(value, Integral) and not isinstance(value, bool)
    if not good or value < low:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    if value > high:
        raise ValueError(f"{name} must be at most {high:,}, got {_short(value)}")
    return value


def _floats(name: str, values: np.ndarray, wanted: str) -> np.ndarray:
    if values.dtype.kind in "iufO":
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            pass
    raise ValueError(f"{name} must be {wanted}, got an array of {values.dtype}")


def _refuse(name: str, values: np.ndarray, bad: np.ndarray, wanted: str) -> None:
    if bad.any():
        culprit = values.ravel()[int(np.argmax(bad))]
        culprit = culprit.item() if isinstance(culprit, np.generic) else culprit
        raise ValueError(f"{name} must be {wanted}, everywhere; got {culprit!r}")


def one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Raise unless ``value`` is one of the words or whole numbers ``allowed``."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        known = False
    else:
        known = value in allowed
    if not known:
        words = ", ".join(str(word) for word in allowed)
        raise ValueError(f"{name} must be one of {words}; got {value!r}")


def least(a: Any, b: Any) -> Any:
    """The smaller: exact numbers stay exact, arrays are compared by element."""
    arrays = isinstance(a, np.ndarray) or isinstance(b, np.ndarray)
    return np.minimum(a, b) if arrays else min(a, b)


def most(a: Any, b: Any) -> Any:
    """The larger: exact numbers stay exact, arrays are compared by element."""
    arrays = isinstance(a, np.ndarray) or isinstance(b, np.ndarray)
    return np.maximum(a, b) if arrays else max(a, b)


def _short(value: Any) -> str:
    return repr(value) if value < 10**40 else "a number of more than 40 digits"
