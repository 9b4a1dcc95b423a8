"""The range of controls that a policy uses: the actuator limits, or a scale where there are
none."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import Array, Dynamics, InputError, finite_array
from pliant.problem import Limit


def control_range(
    model: Dynamics, *, limits: Sequence[Limit] = (), scale: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Return the lowest and highest control (n_controls,) that a policy may use.

    `limits` are bounds of order 0 in addition to those of the actuators. `scale`, a number or
    (n_controls,), is the largest distance from the neutral control in units of the controls. It is
    needed for a control without limits. Raises InputError if a control has no finite range.
    """
    lower, upper = (np.array(side) for side in model.control_limits())
    for limit in limits:
        bound = limit.attach(model)
        if bound.order:
            raise InputError(
                f"A limit of order {bound.order} bounds changes of the controls, which a policy "
                "cannot promise. Give a limit of order 0, and Effort(order=1) for smooth controls."
            )
        lower, upper = np.maximum(lower, bound.lower), np.minimum(upper, bound.upper)
    if scale is not None:
        half, neutral = _scales(scale, model.n_controls), model.neutral_controls()
        lower, upper = np.maximum(lower, neutral - half), np.minimum(upper, neutral + half)
    bad = np.flatnonzero(~(np.isfinite(lower) & np.isfinite(upper) & (lower < upper)))
    if bad.size:
        j = bad[0]
        raise InputError(
            f"Control {j} has the range {lower[j]:g} to {upper[j]:g}, which is empty or not "
            "finite. Give scale=..., its largest distance from the neutral control, or limits."
        )
    return lower, upper


def checked_range(name: str, lower: ArrayLike, upper: ArrayLike) -> tuple[Array, Array]:
    """Return the lowest and highest control (n_controls,) of a controller. Raises InputError if a
    control has no range."""
    low = np.array(finite_array(f"The lowest control of {name}", lower, (None,)))
    high = np.array(finite_array(f"The highest control of {name}", upper, low.shape))
    if not low.size or not np.all(low < high):
        raise InputError(
            f"The range of the controls of {name} is empty; give a higher upper end for each "
            "control."
        )
    return low, high


def _scales(scale: ArrayLike, n: int) -> Array:
    """Return positive scales (n,) from one number or one for each control."""
    values = finite_array(
        "The scale of the controls",
        [scale] * n if np.ndim(scale) == 0 else scale,
        (n,),
    )
    if not np.all(values > 0.0):
        raise InputError(
            f"The scale of the controls is {values.min():g}; give positive numbers in units of "
            "the controls."
        )
    return values
