"""ControlState: the result of a control step."""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array
from pliant.planners.inverse_control.limit_points import LimitPoint, StableEquilibrium
from pliant.planners.inverse_control.tolerances import DEFAULT_TOLERANCES

READY = "ready"  # no control step was taken yet
MOVING = "moving"
REACHED = "reached"
UNREACHABLE = "unreachable"  # at rest at the closest reachable point
CONSTRAINT_VIOLATED = "constraint violated"  # or the step failed
MANUAL = "manual"  # the robot has the controls that were given


@dataclass(frozen=True, kw_only=True, eq=False)
class ControlState:
    """The state of a robot before control step k, with the outcome of the step before."""

    k: int
    x: Array  # (n_state,)
    u: Array  # (n_controls,)
    positions: Array  # (n_effectors, dim) [m] of the effectors
    outcome: str = READY  # or MOVING, REACHED, UNREACHABLE, CONSTRAINT_VIOLATED, MANUAL
    message: str = READY  # the outcome in words
    error: float = 0.0  # [m] largest distance of an effector from its target; 0 without a target
    solve_seconds: float = 0.0  # [s] computing time of the control step
    displacement: float = 0.0  # [m] largest displacement of a node in the control step
    trust_radius: float = np.inf  # [m] largest displacement that the next control step may try
    damping: float = DEFAULT_TOLERANCES.min_damping  # of the next QP, by Levenberg and Marquardt
    stable_equilibrium: StableEquilibrium | None = None  # the last one
    limit_points: tuple[LimitPoint, ...] = ()  # known ones nearby

    @property
    def ok(self) -> bool:
        """False if the target is unreachable or a constraint was violated."""
        return self.outcome not in (UNREACHABLE, CONSTRAINT_VIOLATED)

    @property
    def is_stable(self) -> bool:
        """Whether this state is the last stable equilibrium."""
        stable = self.stable_equilibrium
        return stable is not None and np.array_equal(stable.x, self.x)
