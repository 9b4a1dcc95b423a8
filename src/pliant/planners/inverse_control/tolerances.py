"""The tuning numbers of inverse control."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tolerances:
    """Tuning numbers of inverse control; lengths are fractions of the robot's length."""

    # [-] relative differences below it are rounding errors of double precision
    round_off: float = 1e-9
    # [-] relative distance at which a bound counts as active and two controls as equal
    active_bound: float = 1e-6
    # [-] attempts with half the step, or steps to an equilibrium: 0.5**8 of a step is negligible
    max_halvings: int = 8
    # [-] second Newton step relative to the first one: a longer one means that the step is too long
    max_nonlinearity: float = 0.35
    # [-] growth of the trust radius after a full step
    trust_growth: float = 1.5
    # [-] iterations of the model's solver in search of an equilibrium after a snap or a touch
    max_iterations: int = 48
    # [-] of the length: residual displacement below which an equilibrium may be called stable
    equilibrium_distance: float = 1e-2
    # [-] growth of a control's effect since the first stable equilibrium: more is close to buckling
    max_softening: float = 50.0
    # [-] of the length: resolution of a limit point, and trust radius after a failed step
    limit_point_resolution: float = 1e-3
    # [-] fraction of the distance to a curved bound per control step: its row is only a tangent
    bound_approach: float = 0.5
    # [-] of the rest length or volume: margin of a stroke, since its row is only a tangent
    stroke_margin: float = 1e-4
    # [-] cost of violating a constraint relative to a task error of the same length
    violation_cost: float = 1e4
    # [-] least Levenberg-Marquardt damping: keeps the QP strictly convex
    min_damping: float = 1e-6
    # [-] fraction of the controls kept per control step if no equilibrium is known to return to
    release: float = 0.9


DEFAULT_TOLERANCES = Tolerances()
