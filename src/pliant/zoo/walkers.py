"""Soft walkers with a network in the loop [Spielberg2021, sections 5.2 and 5.3.2]: the model, the
controller, and the problem of walking far by control alone or by control and material together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from pliant.core import Array, InputError, nearest
from pliant.learning import (
    MLP,
    CentroidObserver,
    ClockedController,
    ClosedLoop,
    ScaledObserver,
    StackedObserver,
    attach_observer,
)
from pliant.mpm import MaterialPoint
from pliant.mpm.particle_model import DEFAULT_FRACTION
from pliant.mpm.particles import Particles
from pliant.problem import Problem, Reward, StateGoal, Variable
from pliant.robot import Robot
from pliant.zoo.experiment import Setting
from pliant.zoo.robots.block_walkers import DENSITY, UNIT

BODY = "body"  # the effector at the mean position of the particles
HIDDEN = (64, 64)
# sizes of displacements [m] and velocities [m/s] of the centroids, which the network sees over them
DISPLACEMENT, SPEED = 0.1, 0.5
PLACE = 0.3  # [m] size of the displacement of the whole robot on a terrain
# of the network's first weights of its last layer: large enough that every network moves the robot
OUTPUT_GAIN = 2.0
# of a cell that a pressure wave crosses in a substep of the stiffest and lightest material of the
# bounds. Such a material is stable up to 0.9, and the first material crosses half as much.
WAVE_FRACTION = 0.75
EFFORT = 1e-6 / UNIT**2  # [m/Pa^2] of half the squared pressures of a step
NONE = "none"  # the name of control alone
HORIZON_DIVISORS = 2, 1  # the first horizon is half of the simulated time


@dataclass(frozen=True, kw_only=True)
class MaterialField:
    """A property of the material that each particle has for itself, and its bounds."""

    name: str  # of the parameter
    lower: float
    upper: float
    stiffest: float  # the bound at which waves are fastest


FIELDS = {
    "E": MaterialField(name="cells.E", lower=7.0 * UNIT, upper=20.0 * UNIT, stiffest=20.0 * UNIT),
    "nu": MaterialField(name="cells.nu", lower=0.2, upper=0.4, stiffest=0.4),
    "density": MaterialField(
        name="cells.density", lower=0.7 * DENSITY, upper=2.0 * DENSITY, stiffest=0.7 * DENSITY
    ),
}
COMBINATIONS = {
    "+".join(chosen) or NONE: chosen for k in range(4) for chosen in combinations(FIELDS, k)
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Walker:
    """A robot that walks along x, its resolution and its observer."""

    robot: Robot
    length: float  # [m] of the body, the unit of distances
    cell: float  # [m]
    observer: CentroidObserver
    place: CentroidObserver | None = None  # whose position the network sees too
    particles: Particles | None = None  # None: `per_cell` along each edge of a cell
    per_cell: int = 2


MakeWalker = Callable[[Mapping[str, Setting]], Walker]


def chosen_combinations(settings: Mapping[str, Setting]) -> dict[str, tuple[str, ...]]:
    """Return the combinations of fields that are optimised with the controller, by name. Raises
    InputError for an unknown one."""
    text = str(settings["combinations"])
    names = list(COMBINATIONS) if text == "all" else [one.strip() for one in text.split(",")]
    for name in names:
        if name not in COMBINATIONS:
            raise InputError(
                f"There is no combination '{name}' of material fields; "
                f"{nearest(name, COMBINATIONS)} Separate several by commas."
            )
    return {name: COMBINATIONS[name] for name in dict.fromkeys(names)}


def walker_model(
    walker: Walker, settings: Mapping[str, Setting], fields: Sequence[str] = ()
) -> MaterialPoint:
    """Return the model of a walker whose particles have some fields of their own. Its substeps are
    stable for all materials of all combinations of the settings, which so have equal substeps."""
    model = MaterialPoint(
        walker.robot,
        dt=float(settings["dt"]),
        cell=walker.cell,
        per_cell=walker.per_cell,
        design=[one.name for one in FIELDS.values()],
        transfer=str(settings["transfer"]),
        body=walker.particles,  # type: ignore[arg-type]
        memory=1e9,
        max_gap=float(settings["max_gap"]),
        store_substeps=walker.robot.mesh().dim == 2,  # in space they take too much memory
    )
    varied = {name for chosen in chosen_combinations(settings).values() for name in chosen}
    fastest = model.params.split(model.params.flat)
    for name in varied.union(fields):
        fastest[FIELDS[name].name] = np.full(model.body.n_particles, FIELDS[name].stiffest)
    first, stiffest = (
        model.stable_substeps(p) for p in (None, np.concatenate([*fastest.values()]))
    )
    substeps = max(first, int(np.ceil(stiffest * DEFAULT_FRACTION / WAVE_FRACTION)))
    return replace(model, substeps=substeps, design=[FIELDS[name].name for name in fields])


def walker_loop(
    walker: Walker, model: MaterialPoint, settings: Mapping[str, Setting], seed: int
) -> ClosedLoop:
    """Return the model with its network, whose first weights are random. The network sees the
    displacement and the velocity of each centroid and, unless its frequency is zero, a clock."""
    parts = [walker.observer] if walker.place is None else [walker.observer, walker.place]
    both = StackedObserver(observers=parts)
    seen, n = attach_observer(both, model), attach_observer(walker.observer, model).size
    scale = np.full(seen.size, PLACE)
    scale[:n] = np.tile(np.repeat([DISPLACEMENT, SPEED], model.dim), n // (2 * model.dim))
    observer = ScaledObserver(
        observer=both, offset=seen.observe(model.initial_state()), scale=scale
    )
    frequency, time = float(settings["clock"]), float(settings["window"])
    window = max(1, round(time / model.dt)) if time > 0.0 else None
    lower, upper = model.control_limits()
    network = MLP(
        n_inputs=seen.size + (2 if frequency > 0.0 else 0),
        lower=lower,
        upper=upper,
        hidden=HIDDEN,
        seed=seed,
        output_gain=OUTPUT_GAIN,
    )
    if frequency > 0.0:
        clocked = ClockedController(controller=network, frequency=frequency)
        return ClosedLoop(model, observer, clocked, gradient_window=window)
    return ClosedLoop(model, observer, network, gradient_window=window)


def walker_problem(
    loop: ClosedLoop, settings: Mapping[str, Setting], steps: int, fields: Sequence[str] = ()
) -> Problem:
    """Return the problem: maximise the distance along x at the end, with the paper's small effort.
    The variables are the network's weights and fields of the material."""
    model = loop.model
    forward = np.eye(model.dim)[0]  # type: ignore[attr-defined]
    distance = Reward(effector=BODY, quantity="position", direction=forward, time=steps * loop.dt)
    effort = StateGoal(part="controls", target=np.zeros(model.n_controls), weight=EFFORT / loop.dt)
    rate, design_rate = float(settings["later_rate"]), float(settings["design_rate"])
    return Problem(
        model=loop,
        steps=steps,
        terms=[distance, effort],
        variables=[
            Variable("controller", scale=1.0),
            *(_field_variable(FIELDS[name], design_rate / rate) for name in fields),
        ],
    )


def _field_variable(field: MaterialField, ratio: float) -> Variable:
    """Return the variable of a field. Its largest change in a step is `ratio` times as large a
    share of half its range as that of a weight is of one."""
    half = 0.5 * (field.upper - field.lower)
    return Variable(field.name, lower=field.lower, upper=field.upper, scale=ratio * half)


def horizons(settings: Mapping[str, Setting]) -> list[int]:
    """Return the steps of each horizon. Raises InputError for too few steps."""
    steps = int(settings["steps"])
    if steps < HORIZON_DIVISORS[0]:
        raise InputError(
            f"The setting steps is {steps}, so the first of "
            f"{len(HORIZON_DIVISORS)} horizons has no step; give {HORIZON_DIVISORS[0]} or more."
        )
    return [steps // part for part in HORIZON_DIVISORS]


def forward_position(model: MaterialPoint, x: Array) -> float:
    """Return the mean position [m] of the particles along x in a state (n_state,)."""
    return float((model.effector_rows(BODY) @ x[: model.space.n_dofs])[0])


def check_walker(settings: Mapping[str, Setting]) -> None:
    """Raise InputError for unknown combinations, and for rates or a clock out of range."""
    chosen_combinations(settings)
    horizons(settings)
    for name in ("rate", "later_rate", "design_rate", "coarsening"):
        if float(settings[name]) <= 0.0:
            raise InputError(f"The setting {name} is {settings[name]}; give a positive number.")
    if float(settings["window"]) < 0.0:
        raise InputError(
            f"The gradient window is {settings['window']} s; give a positive time, or 0 for exact "
            "gradients."
        )
    if float(settings["clock"]) < 0.0:
        raise InputError(
            f"The clock has a frequency of {settings['clock']} Hz; give a positive one, or 0 for "
            "a network without a clock."
        )
