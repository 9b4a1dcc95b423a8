"""Set up inverse control: what is wrong with what was asked for is a sentence now, not at the first
tick."""

from collections.abc import Mapping, Sequence

from numpy.typing import ArrayLike

from pliant.core import InputError, require_kind, require_positive
from pliant.dynamics.implicit import Implicit
from pliant.dynamics.semi_implicit import Linearised
from pliant.planners.inverse.aims import Ways, aims
from pliant.planners.inverse.controller import Inverse
from pliant.planners.inverse.controls import controls
from pliant.planners.inverse.one_newton import OneNewton
from pliant.planners.inverse.rows import obstacle_guards, stroke_guards, taut_guards
from pliant.planners.inverse.swing import Swing
from pliant.planners.inverse.ticking import Ticking, length_of
from pliant.problem import Limit, Stroke

AHEAD = 3  # steps that a robot that swings looks ahead


def inverse(
    model: Implicit | Linearised,
    effectors: Sequence[str] | str = ("tip",),
    *,
    weights: ArrayLike | None = None,
    directions: Ways = None,
    limits: Sequence[Limit] = (),
    strokes: Sequence[Stroke] = (),
    fixed: Mapping[str, ArrayLike] | None = None,
    obstacles: bool | Sequence[int] = True,
    stride: float = 0.05,
    horizon: float | None = None,
    tolerance: float = 1e-4,
) -> Inverse:
    """A controller that leads effectors to targets, on Quasistatic(robot) or SemiImplicit(robot,
    dt=...).

    `weights` (n_effectors,) says what a miss of each costs, `directions` which of its directions
    count: for each effector a word such as "xz", a matrix (d, dim) or None for all. `limits` bound
    controls and rates beside what the motors can do, where a tick of a Quasistatic model counts one
    second; `strokes` bound displacements. `fixed` names actuators that stay at a value: a cable of
    fixed length, a closed chamber. `obstacles` are those of all the robot's contacts, of some by
    their place in its list, or of none. `stride` is how far a node may go in a tick and `tolerance`
    how near is reached, both as shares of the robot's length; `horizon` [s] is how far a robot that
    swings looks ahead (None: three steps).
    """
    require_kind(
        "The model of inverse control",
        model,
        (Implicit, Linearised),
        "give Quasistatic(robot) or SemiImplicit(robot, dt=...)",
    )
    if isinstance(model, Implicit) and model.rule.acceleration[0] != 0.0:
        raise InputError(
            "Inverse control takes a model without inertia, or one that is linearised at every "
            "step; give Quasistatic(robot) or SemiImplicit(robot, dt=...)."
        )
    if horizon is not None and isinstance(model, Implicit):
        raise InputError(
            "A Quasistatic model does not swing, so that a horizon means nothing to it; leave "
            "horizon out."
        )
    length = length_of(model.equations.body)
    way = length * require_positive(
        "The stride of inverse control", stride, "of the robot's length"
    )
    near = require_positive("The tolerance of inverse control", tolerance, "of the robot's length")
    own = controls(model, limits, fixed or {})
    rule: Ticking = (
        OneNewton(model=model)
        if isinstance(model, Implicit)
        else Swing(model=model, horizon=_horizon(model, horizon))
    )
    return Inverse(
        model=model,
        rule=rule,
        aims=aims(model, effectors, directions, weights),
        controls=own,
        cables=tuple(taut_guards(model.equations, own.chosen)),
        strokes=tuple(stroke_guards(model.equations, strokes)),
        obstacles=tuple(obstacle_guards(model.equations, obstacles, 2.0 * way)),
        stride=way,
        length=length,
        tolerance=near,
    )


def _horizon(model: Linearised, horizon: float | None) -> float:
    """[s]"""
    ahead = (
        AHEAD * model.dt
        if horizon is None
        else require_positive("The horizon of inverse control", horizon, "s")
    )
    if ahead < model.dt:
        raise InputError(
            f"The horizon of inverse control is {ahead:g} s, less than a step of {model.dt:g} s; "
            "look a step ahead or more."
        )
    return ahead
