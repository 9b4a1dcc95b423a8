"""The implicit time-stepping rules: equilibria, backward Euler (BDF1) and BDF2."""

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from pliant.argument_checks import check_dt
from pliant.bodies.design import refuse_parameters
from pliant.core import Array, EquilibriumTangent, InputError
from pliant.dynamics.equilibrium_tangent import equilibrium_tangent
from pliant.dynamics.implicit_model import ImplicitModel
from pliant.dynamics.integration_rules import (
    IntegrationRule,
    bdf2_rule,
    euler_rule,
    quasistatic_rule,
)

# patterns of design parameters of forces that equilibria do not have
WITHOUT_EFFECT = {
    r"damping\..*|contact\d+\.friction": "has no effect on an equilibrium, which has no velocity; "
    "remove it, or take ImplicitEuler."
}


@final
@dataclass(frozen=True, eq=False, repr=False)
class Quasistatic(ImplicitModel):
    """A model without inertia: each step is the equilibrium 0 = p(q') + c(q', u) [Jia2019, eq. 7],
    found from the last one. Friction does not act. The state is (position).

    `design` names the active parameters, such as "body.E". `solver` is "multifrontal", "cholmod"
    or None for the faster one. `solver_options` are the stopping criteria. `equations` are built
    if they are left out. `dt` [s] is the time between two steps. Only time-dependent loads and
    supports depend on it.

    Raises InputError if nothing prevents a rigid motion of the robot.

    >>> import pliant as pl
    >>> beam = pl.Robot(
    ...     shape=pl.Box(size=(0.1, 0.02, 0.02)),
    ...     divisions=(3, 1, 1),
    ...     order=1,
    ...     material=pl.Material(E=1e5, nu=0.4, density=1000.0),
    ...     supports=[pl.Support(region="x-")],
    ...     effectors={"tip": pl.Effector(surface="x+")},
    ...     actuators={"cable": pl.Cable(points=[(0.0, 0.01, 0.02), (0.1, 0.01, 0.02)])},
    ... )
    >>> model = pl.Quasistatic(beam)
    >>> tip = model.effector("tip", pl.equilibrium(model, [0.5]).x)  # 0.5 N bends it upwards
    >>> bool(tip[0, 2] > 0.01)
    True
    """

    _: KW_ONLY
    dt: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "dt", check_dt(self.dt))
        if self.equations is not None:
            return
        refuse_parameters(self.design, WITHOUT_EFFECT)
        self.make_equations()
        free_motions = self.equations.free_rigid_motions()
        if free_motions:
            raise InputError(
                f"{self.robot.name} cannot be held in a quasistatic solve: nothing stops its "
                f"{', '.join(free_motions)}. Add a Support, or let it move with inertia: by "
                "ImplicitEuler or SemiImplicit, or with pliant drive --dynamic."
            )

    @cached_property
    def rule(self) -> IntegrationRule:
        return quasistatic_rule()

    def equilibrium_tangent(self, x: Array, u: Array, k: int = 0) -> EquilibriumTangent | None:
        """Return the linearised equilibrium at the state x (n_state,), with supports and loads at
        the end of step k. Return None if no factorisation exists."""
        return equilibrium_tangent(self.equations, x, u, (k + 1) * self.dt)

    def with_max_iterations(self, iterations: int) -> "Quasistatic":
        """Return the same model with another limit on the iterations of its solver."""
        return replace(self, solver_options=replace(self.solver_options, iterations=iterations))

    def initial_acceleration(
        self, q: Array, v: Array, controls: Array | None, p: Array | None
    ) -> Array:
        return np.zeros_like(q)


@final
@dataclass(frozen=True, eq=False, repr=False)
class ImplicitEuler(ImplicitModel):
    """Backward Euler (BDF1): first order, unconditionally stable. The state is (position,
    velocity).

    `dt` [s] is the time step, `design` names the active parameters, such as "body.E".
    `solver` is "multifrontal", "cholmod" or None for the faster one. `equations` are built if they
    are left out.

    >>> import numpy as np, pliant as pl
    >>> robot = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    ... )
    >>> model = pl.ImplicitEuler(robot, dt=0.1)
    >>> x = model.step(model.initial_state(), np.array([2.0, 0.0])).x  # 2 N on 1 kg
    >>> model.space.split(x).velocity.round(6)
    array([0.2, 0. ])
    """

    @cached_property
    def rule(self) -> IntegrationRule:
        return euler_rule(self.dt)

    def initial_acceleration(
        self, q: Array, v: Array, controls: Array | None, p: Array | None
    ) -> Array:
        return np.zeros_like(q)


@final
@dataclass(frozen=True, eq=False, repr=False)
class BDF2(ImplicitModel):
    """Second-order backward differences [Zimmermann2021, eq. 4]. The state is (position, previous,
    before), the last three positions.

    `initial_state()` chooses the two positions before the start so that the order is 2 from the
    first step under neutral controls. If the first control u0 is another one, start from
    `initial_state(controls=u0)`; otherwise the order is 1. The arguments are those of
    ImplicitEuler.

    >>> import numpy as np, pliant as pl
    >>> robot = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]]),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    ... )
    >>> run = pl.simulate(pl.BDF2(robot, dt=0.1), np.ones((5, 2)))
    >>> run.states.shape  # three positions (2,) in each state
    (6, 6)
    """

    @cached_property
    def rule(self) -> IntegrationRule:
        return bdf2_rule(self.dt)

    def initial_acceleration(
        self, q: Array, v: Array, controls: Array | None, p: Array | None
    ) -> Array:
        """Return the acceleration (n_dofs,) [m/s^2] of one backward Euler step from time zero.

        Its error is O(dt), which keeps BDF2 at second order. The exact M^-1 f would excite every
        mode that is too stiff for the time step; backward Euler damps those. Returns zeros with a
        warning if the step fails.
        """
        eq, h = self.equations, self.dt
        now, next_one, second = (eq.place_supports(q, t) for t in (0.0, h, 2.0 * h))
        # Held unknowns get the velocity for which the step has the supports' own acceleration.
        v = np.where(eq.held, (next_one - q - (now - 2.0 * next_one + second)) / h, v)
        u = self.neutral_controls() if controls is None else controls
        euler = ImplicitEuler(self.robot, dt=h, solver_options=self.solver_options, equations=eq)
        step = euler.step(np.concatenate([q, v]), u, p)
        if not step.status:
            warnings.warn(
                f"BDF2 starts {self.robot.name} without acceleration, which costs it its second "
                f"order: the backward Euler step for it failed ({step.status.text}).",
                stacklevel=3,
            )
            return np.zeros_like(q)
        return (step.x[: q.size] - q - h * v) / h**2
