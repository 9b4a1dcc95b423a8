"""Scenes of particles: from states of a MaterialPoint model to what an animation shows."""

from itertools import product

import numpy as np

from pliant.actuators import Cable
from pliant.bodies import Solid
from pliant.contact import Obstacle
from pliant.core import Array, InputError, finite_array, nearest, require_kind
from pliant.dynamics.attachments import of_actuators
from pliant.dynamics.material_point import MaterialPoints
from pliant.report import Line, Scene
from pliant.zoo.obstacle_pictures import surroundings
from pliant.zoo.pictures import arm_lines, cable_points

COLOURS = ("strain", "actuation")
DOT = {2: 1.15, 3: 1.35}  # diameter in spacings, by dimension
HIDDEN = (
    2.5  # spacings: in space a particle with others all around it at this distance is not drawn
)
FAR = 3.0  # lengths of the body: beyond it the picture goes along
LEAST_STRAIN = 0.1  # [%] so that the round-off of a body that has no strain is not coloured


def particle_scene(
    model: MaterialPoints,
    states: Array,
    *,
    controls: Array | None = None,
    colour: str = "strain",
    title: str = "",
    targets: Array | None = None,
    ground: float | None = None,
    marked: tuple[str, ...] | None = None,
) -> Scene:
    """Particles at states (frames, n_state), `dt` apart, coloured by the size of their Green strain
    or by the actuation, with cables, effectors and obstacles.

    `controls` (frames - 1, n_controls) led to each frame after the first, as simulate gives them;
    or (frames, n_controls). With them a cable is as thick as it pulls. `marked` names the effectors
    to draw, None: all.
    """
    states = checked_states(model, states)
    used = None if controls is None else _shown_controls(model, controls, len(states))
    robot, body = model.robot, model.body
    if colour not in COLOURS:
        raise InputError(f"Particles cannot be coloured by '{colour}'; {nearest(colour, COLOURS)}")
    for name in marked or ():
        model.effector_rows(name)  # an unknown one is a sentence
    frames = states[:, : model.space.n_dofs].reshape(len(states), -1, body.dim)
    at = lambda weights: np.stack([weights @ frame for frame in frames])
    obstacles = [contact.obstacle for contact in robot.contacts]
    floor = next((o for o in obstacles if isinstance(o, Obstacle) and o.ground is not None), None)
    follow, reach = _view(frames)
    cables, key = _cables(model, states, used, at)
    effectors = [
        at(effector.on(body))
        for name, effector in robot.effectors.items()
        if marked is None or name in marked
    ]
    values, label, limits = (
        _strains(model, states) if colour == "strain" else _actuation(model, used)
    )
    return Scene(
        frames=frames,
        facets=_outer(model)[:, None],
        dt=model.dt,
        title=title,
        values=values,
        value_label=label,
        value_limits=limits,
        lines=(*cables, *([] if used is None else arm_lines(robot, body, at, used))),
        key=key,
        follow=follow,
        targets=targets,
        surroundings=surroundings([o for o in obstacles if o is not floor], frames, reach),
        thickness=DOT[body.dim] * body.spacing(),
        markers=np.concatenate(effectors, axis=1) if effectors else None,
        ground=ground if floor is None else floor.ground,
    )


def checked_states(model: MaterialPoints, states: Array) -> Array:
    """(frames, n_state) finite, or a sentence."""
    require_kind(
        "The model of particles",
        model,
        MaterialPoints,
        "make one with MaterialPoint(robot, dt=..., cell=...)",
    )
    states = finite_array("The array of states", states, (None, model.space.size))
    if not len(states):
        raise InputError(
            "There are no states to show; give at least one, such as model.initial_state()[None]."
        )
    return states


def deformations(model: MaterialPoints, x: Array) -> Array:
    """(n, dim, dim) [-] the deformation gradient of every particle."""
    return model.space.split(x).deformation.reshape(-1, model.dim, model.dim)


def strain_size(F: Array) -> Array:
    """(n,) [-] size of the Green strain |F^T F - I| / 2, as Solid.strain has it."""
    return 0.5 * np.linalg.norm(np.swapaxes(F, 1, 2) @ F - np.eye(F.shape[1]), axis=(1, 2))


def _shown_controls(model: MaterialPoints, controls: Array, count: int) -> Array:
    """(frames, n_controls); before the first step nothing is driven."""
    given = finite_array("The array of controls", controls, (None, model.n_controls))
    if len(given) not in (count - 1, count):
        raise InputError(
            f"There are {len(given)} controls for {count} states; give {count - 1}, one for each "
            f"step between them, or {count}, one for each."
        )
    return given if len(given) == count else np.concatenate([model.neutral_controls()[None], given])


def _view(frames: Array) -> tuple[bool, float]:
    """Does the body go so far along the ground that the picture must go along; and how far [m]
    about it one may then see."""
    size, middle = (
        np.ptp(frames, axis=1).max(axis=0),
        (frames.min(axis=1) + frames.max(axis=1)) / 2.0,
    )
    follow = bool(np.linalg.norm(np.ptp(middle[:, :-1], axis=0)) > FAR * size[:-1].max())
    whole = size if follow else np.ptp(frames, axis=(0, 1))
    return follow, 2.0 * float(np.linalg.norm(whole))


def _outer(model: MaterialPoints) -> Array:
    """(m,) the particles to draw: in space those about the boundary of the body, since they hide
    the others."""
    points = model.body.seeds.points
    if model.dim == 2:
        return np.arange(len(points))
    cell = np.floor((points - points.min(axis=0)) / (HIDDEN * model.body.spacing())).astype(int) + 1
    full = np.zeros(cell.max(axis=0) + 2, bool)
    full[tuple(cell.T)] = True
    hidden = np.all(
        [full[tuple((cell + shift).T)] for shift in product((-1, 0, 1), repeat=3)], axis=0
    )
    return np.flatnonzero(~hidden)


def _strains(model: MaterialPoints, states: Array) -> tuple[Array, str, tuple[float, float]]:
    values = 100.0 * np.stack([strain_size(deformations(model, x)) for x in states])
    label = f"{Solid.strain_label} [%]"
    return values, label, (0.0, max(float(np.percentile(values, 99.5)), LEAST_STRAIN))


def _actuation(
    model: MaterialPoints, controls: Array | None
) -> tuple[Array | None, str, tuple[float, float] | None]:
    """The stress [kPa] of the muscles and fluids about each particle; nothing where there are none,
    since cables show for themselves."""
    if controls is None:
        raise InputError(
            "To colour particles by actuation the controls are needed; pass "
            "controls=rollout.controls."
        )
    values = np.zeros((len(controls), model.body.n_particles))
    for (particles, _), part in model.stresses:
        values[:, particles] += 1e-3 * controls[:, part]
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    return (values, "stress [kPa]", (low, high)) if model.stresses else (None, "", None)


def _cables(
    model: MaterialPoints, states: Array, controls: Array | None, at
) -> tuple[list[Line], str]:
    """The cables, as thick as they pull, and what the thickest means."""
    made = of_actuators(
        model.robot, lambda actuator: actuator if isinstance(actuator, Cable) else None
    )
    cables = [(cable, part) for cable, part in made if cable is not None]
    points = [cable_points(cable, model.body, at) for cable, _ in cables]
    if controls is None or not cables:
        return [Line(points=curve) for curve in points], ""
    tension = np.array(
        [_tension(model, cable, states, controls[:, part]) for cable, part in cables]
    )
    most = float(tension.max())
    lines = [
        Line(points=curve, pull=pull / (most or 1.0))
        for curve, pull in zip(points, tension, strict=True)
    ]
    return lines, f"thickest cable: {most:.3g} N" if most else ""


def _tension(model: MaterialPoints, cable: Cable, states: Array, controls: Array) -> Array:
    """(frames,) [N]"""
    term = cable.on(model.body)
    segments = (
        term.weights @ model.space.position(x).reshape(-1, model.dim) + term.offset for x in states
    )
    return np.array(
        [np.linalg.norm(term.gradient(y, u)[0]) for y, u in zip(segments, controls, strict=True)]
    )
