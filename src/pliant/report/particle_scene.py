"""Scenes of particles from the states of a MaterialPoint model."""

from itertools import product

import numpy as np

from pliant.bodies import Solid
from pliant.contact import Obstacle
from pliant.core import Array, InputError, counted, finite_array, nearest, require_kind
from pliant.mpm.material_point import MaterialPoint
from pliant.report.obstacle_outlines import surroundings
from pliant.report.robot_scene import NO_CONTROLS, frame_lines
from pliant.report.scene import DrawnScene, Line
from pliant.robot import Actuator
from pliant.robot.actuation import for_each_actuator

COLOURS = ("strain", "actuation")
DOT_DIAMETER = {2: 1.15, 3: 1.35}  # in particle spacings, by dimension
HIDDEN_DEPTH = 2.5  # particle spacings; in 3D a particle surrounded at this distance is not drawn
FOLLOW_DISTANCE = 3.0  # body lengths; the camera follows a body that moves further
MIN_STRAIN_RANGE = 0.1  # [%] so that rounding errors are not coloured


def particle_scene(
    model: MaterialPoint,
    states: Array,
    *,
    controls: Array | None = None,
    colour: str = "strain",
    title: str = "",
    targets: Array | None = None,
    ground: float | None = None,
    marked: tuple[str, ...] | None = None,
) -> DrawnScene:
    """Return a scene of particles with cables, effectors and obstacles.

    `states` (frames, n_state) are `dt` apart. `colour` is "strain" (norm of the Green strain) or
    "actuation". `controls` (frames - 1, n_controls) act before each frame after the first; or give
    (frames, n_controls). With them, the width of a cable shows its tension. `marked` names the
    effectors to draw; None: all. Raises `InputError` if an argument is invalid.
    """
    states = checked_states(model, states)
    used = None if controls is None else _shown_controls(model, controls, len(states))
    robot, body = model.robot, model.body
    if colour not in COLOURS:
        raise InputError(f"Particles cannot be coloured by '{colour}'; {nearest(colour, COLOURS)}")
    for name in marked or ():
        model.effector_rows(name)  # raises for an unknown effector
    # of what the robot attaches to: the particles, or the nodes of a reference grid
    nodes = states[:, : model.space.n_dofs].reshape(len(states), -1, body.dim)
    frames = np.stack([model.particles(x).position for x in states])
    at = lambda weights: np.stack([weights @ frame for frame in nodes])
    obstacles = [contact.obstacle for contact in robot.contacts]
    floor = next((o for o in obstacles if isinstance(o, Obstacle) and o.ground is not None), None)
    follow, reach = _view(frames)
    cables, key = _cables(model, states, used, nodes)
    effectors = [
        at(effector.attach(body))
        for name, effector in robot.effectors.items()
        if marked is None or name in marked
    ]
    values, label, limits = (
        _strains(model, states) if colour == "strain" else _actuation(model, used)
    )
    return DrawnScene(
        frames=frames,
        facets=_outer(model)[:, None],
        dt=model.dt,
        title=title,
        values=values,
        value_label=label,
        value_limits=limits,
        lines=(*cables, *([] if used is None else frame_lines(robot, body, nodes, used))),
        key=key,
        follow=follow,
        targets=targets,
        surroundings=surroundings([o for o in obstacles if o is not floor], frames, reach),
        thickness=DOT_DIAMETER[body.dim] * body.spacing(),
        markers=np.concatenate(effectors, axis=1) if effectors else None,
        ground=ground if floor is None else floor.ground,
    )


def checked_states(model: MaterialPoint, states: Array) -> Array:
    """Return finite states (frames, n_state). Raises `InputError` otherwise."""
    require_kind(
        "The model of particles",
        model,
        MaterialPoint,
        "make one with MaterialPoint(robot, dt=..., cell=...)",
    )
    states = finite_array("The array of states", states, (None, model.space.size))
    if not len(states):
        raise InputError(
            "There are no states to show. Give at least one, such as model.initial_state()[None]."
        )
    return states


def strain_size(F: Array) -> Array:
    """Return the norm (n,) [-] of the Green strain |F^T F - I| / 2, like Solid.strain."""
    return 0.5 * np.linalg.norm(np.swapaxes(F, 1, 2) @ F - np.eye(F.shape[1]), axis=(1, 2))


def _shown_controls(model: MaterialPoint, controls: Array, count: int) -> Array:
    """Return controls (frames, n_controls); frame 0 has neutral controls."""
    given = finite_array("The array of controls", controls, (None, model.n_controls))
    if len(given) not in (count - 1, count):
        raise InputError(
            f"The array of controls has {counted(len(given), 'row')} for "
            f"{counted(count, 'state')}. Give {count - 1}, one for each step between them, or "
            f"{count}, one for each."
        )
    return given if len(given) == count else np.concatenate([model.neutral_controls()[None], given])


def _view(frames: Array) -> tuple[bool, float]:
    """Return whether the camera follows the body along the ground, and the visible distance [m]
    around the body."""
    size, middle = (
        np.ptp(frames, axis=1).max(axis=0),
        (frames.min(axis=1) + frames.max(axis=1)) / 2.0,
    )
    follow = bool(
        np.linalg.norm(np.ptp(middle[:, :-1], axis=0)) > FOLLOW_DISTANCE * size[:-1].max()
    )
    whole = size if follow else np.ptp(frames, axis=(0, 1))
    return follow, 2.0 * float(np.linalg.norm(whole))


def _outer(model: MaterialPoint) -> Array:
    """Return the indices (m,) of the particles to draw; in 3D those near the boundary, which hide
    the others."""
    points = model.body.samples.points
    if model.dim == 2:
        return np.arange(len(points))
    cell = (
        np.floor((points - points.min(axis=0)) / (HIDDEN_DEPTH * model.body.spacing())).astype(int)
        + 1
    )
    full = np.zeros(cell.max(axis=0) + 2, bool)
    full[tuple(cell.T)] = True
    hidden = np.all(
        [full[tuple((cell + shift).T)] for shift in product((-1, 0, 1), repeat=3)], axis=0
    )
    return np.flatnonzero(~hidden)


def _strains(model: MaterialPoint, states: Array) -> tuple[Array, str, tuple[float, float]]:
    values = 100.0 * np.stack([strain_size(model.particles(x).deformation) for x in states])
    label = f"{Solid.strain_label} [%]"
    return values, label, (0.0, max(float(np.percentile(values, 99.5)), MIN_STRAIN_RANGE))


def _actuation(
    model: MaterialPoint, controls: Array | None
) -> tuple[Array | None, str, tuple[float, float] | None]:
    """Return the stress [kPa] of muscles and fluids at each particle. None if there are none, since
    cables are drawn as lines."""
    if controls is None:
        raise InputError(
            "Particles cannot be coloured by actuation without controls. Pass "
            "controls=rollout.controls."
        )
    values = np.zeros((len(controls), model.body.n_particles))
    for (particles, _), part in model.stresses:
        values[:, particles] += 1e-3 * controls[:, part]
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    return (values, "stress [kPa]", (low, high)) if model.stresses else (None, "", None)


def _cables(
    model: MaterialPoint, states: Array, controls: Array | None, frames: Array
) -> tuple[list[Line], str]:
    """Return the cables, with widths by tension, and the tension of the thickest as text."""
    made = for_each_actuator(
        model.robot, lambda actuator: (actuator, actuator.polylines(model.body))
    )
    cables = [
        (cable, part, line)
        for (cable, lines), part in made
        for line in lines
        if not line.depends_on_controls
    ]
    points = [
        np.stack([line.points(nodes, NO_CONTROLS) for nodes in frames]) for _, _, line in cables
    ]
    if controls is None or not cables:
        return [Line(points=curve) for curve in points], ""
    tension = np.array(
        [_tension(model, cable, states, controls[:, part]) for cable, part, _ in cables]
    )
    largest = float(tension.max())
    lines = [
        Line(points=curve, relative_tension=values / (largest or 1.0))
        for curve, values in zip(points, tension, strict=True)
    ]
    return lines, f"thickest cable: {largest:.3g} N" if largest else ""


def _tension(model: MaterialPoint, cable: Actuator, states: Array, controls: Array) -> Array:
    """Return the tension (frames,) [N] of a cable."""
    term = cable.attach(model.body)
    segments = (
        term.weights @ model.space.position(x).reshape(-1, model.dim) + term.offset for x in states
    )
    return np.array(
        [np.linalg.norm(term.gradient(y, u)[0]) for y, u in zip(segments, controls, strict=True)]
    )
