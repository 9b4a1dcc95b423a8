"""Create an inverse controller; all arguments are checked here."""

from collections.abc import Mapping, Sequence

from numpy.typing import ArrayLike

from pliant.core import (
    AttachedParts,
    EquilibriumModel,
    InputError,
    LinearizedStepModel,
    require_kind,
    require_positive,
)
from pliant.planners.inverse_control.contact_forces import (
    ContactForceLimit,
    contact_force_constraints,
)
from pliant.planners.inverse_control.control_ranges import control_ranges
from pliant.planners.inverse_control.controller import InverseController
from pliant.planners.inverse_control.dynamic_rule import DynamicRule
from pliant.planners.inverse_control.effector_tasks import Directions, effector_tasks
from pliant.planners.inverse_control.equilibrium_rule import EquilibriumRule
from pliant.planners.inverse_control.motion_constraints import (
    obstacle_constraints,
    stroke_constraints,
    taut_cable_constraints,
)
from pliant.planners.inverse_control.step_rule import StepRule, body_length
from pliant.planners.inverse_control.tolerances import DEFAULT_TOLERANCES, Tolerances
from pliant.problem import Limit, StrokeLimit


def inverse_control(
    model: EquilibriumModel | LinearizedStepModel,
    effectors: Sequence[str] | str = ("tip",),
    *,
    weights: ArrayLike | None = None,
    directions: Directions = None,
    limits: Sequence[Limit] = (),
    strokes: Sequence[StrokeLimit] = (),
    fixed: Mapping[str, ArrayLike] | None = None,
    obstacles: bool | Sequence[int] = True,
    contact_forces: Sequence[ContactForceLimit] = (),
    max_step: float = 0.05,
    horizon: float | None = None,
    tolerance: float = 1e-4,
    tolerances: Tolerances = DEFAULT_TOLERANCES,
) -> InverseController:
    """Return a controller that moves effectors to targets.

    `model` is Quasistatic(robot) or SemiImplicit(robot, dt=...). `weights` (n_effectors,) weigh the
    squared errors. `directions` selects what to control: for each effector a word such as "xz", a
    matrix (d, dim), or None for all. `limits` bound controls and rates in addition to the
    actuators' own limits; a control step of a Quasistatic model counts one second. `strokes` bound
    displacements of actuators. `fixed` maps actuators to constant controls, such as a cable of
    fixed length. `obstacles` are all contacts of the robot, none, or some by their index.
    `contact_forces` bound the forces of contacts that the robot may lean on; these are no
    obstacles.
    `max_step` is the largest displacement of a node in a control step and `tolerance` the error
    that counts as reached, both as fractions of the robot's length. `horizon` [s] is how far a
    dynamic model looks ahead (None: three time steps). `tolerances` are the remaining tuning
    numbers. Raises InputError if an argument does not fit the model.

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
    >>> controller = pl.inverse_control(pl.Quasistatic(beam), effectors=("tip",), directions=("z",))
    >>> state = controller.begin()
    """
    require_kind(
        "The model of inverse control",
        model,
        AttachedParts,
        "give Quasistatic(robot) or SemiImplicit(robot, dt=...)",
    )
    if not isinstance(model, EquilibriumModel | LinearizedStepModel):
        raise InputError(
            "Inverse control needs a model without inertia, or one that is linearised in every "
            "step; give Quasistatic(robot) or SemiImplicit(robot, dt=...)."
        )
    length = body_length(model.body)
    radius = length * require_positive(
        "The max_step of inverse control", max_step, "of the robot's length"
    )
    near = require_positive("The tolerance of inverse control", tolerance, "of the robot's length")
    controls = control_ranges(model, limits, fixed or {}, tolerances)
    dt = None if isinstance(model, EquilibriumModel) else model.dt
    forces = contact_force_constraints(model, contact_forces, dt, tolerances)
    return InverseController(
        model=model,
        body=model.body,
        rule=_rule(model, horizon, tolerances),
        tasks=effector_tasks(model, effectors, directions, weights),
        controls=controls,
        cables=taut_cable_constraints(model, controls.free_controls, tolerances),
        strokes=stroke_constraints(model, strokes, tolerances),
        contact_forces=forces,
        obstacles=obstacle_constraints(
            model, obstacles, 2.0 * radius, tolerances, [one.limit.contact for one in forces]
        ),
        max_step=radius,
        length=length,
        tolerance=near,
        tolerances=tolerances,
    )


def _rule(
    model: EquilibriumModel | LinearizedStepModel, horizon: float | None, tolerances: Tolerances
) -> StepRule:
    if isinstance(model, EquilibriumModel):
        if horizon is not None:
            raise InputError("A Quasistatic model has no horizon; leave horizon out.")
        return EquilibriumRule(model=model, tolerances=tolerances)
    if horizon is None:
        horizon = 3.0 * model.dt  # shorter ones overshoot, longer ones lag behind
    if require_positive("The horizon of inverse control", horizon, "s") < model.dt:
        raise InputError(
            f"The horizon of inverse control is {horizon:g} s, less than a time step of "
            f"{model.dt:g} s; give one time step or more."
        )
    return DynamicRule(model=model, horizon=horizon, tolerances=tolerances)
