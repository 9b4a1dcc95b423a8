"""Particles and stable substeps of a material point model."""

import warnings

import numpy as np

from pliant.actuators.hydraulic import cavity_of
from pliant.bodies import MaterialFields
from pliant.core import InputError, is_integer, quoted
from pliant.geometry import Mesh
from pliant.geometry.particle_sampling import sample_particles
from pliant.geometry.thickness import cavity_width
from pliant.mpm.particle_forces import highest_frequency, particle_potentials
from pliant.mpm.particles import Particles
from pliant.mpm.reference_grid import ReferenceGrid
from pliant.robot import Robot

STABLE_FRACTION = 0.9  # of a cell that a pressure wave may cross in a substep; more is unstable
DEFAULT_FRACTION = 0.5  # the fraction that the default number of substeps uses
COSTLY_RATIO = 10  # damped over undamped substeps, above which stiffness damping warns
NARROW = 3.0  # [cells] between the walls of a cavity, below which the grid joins them


def sample_body(robot: Robot, cell: float, per_cell: int, seeding: str, rng_seed: int) -> Particles:
    """Return the particles of a robot, `per_cell` along each edge of a cell [m].

    Raises `InputError` for a cell larger than the body, and warns about poor resolution.
    """
    if not is_integer(per_cell) or per_cell < 1:
        raise InputError(
            f"There are {quoted(per_cell)} particles along a cell; take 2, or 4 for a body with "
            "large strains."
        )
    if per_cell == 1:
        warnings.warn(
            'One particle along a cell is too few: with the transfer "updated" a stretched body '
            'tears, and with "total" it is too soft. Take per_cell=2, or 4 for large strains.'
        )
    mesh = robot.mesh()
    if cell > (size := float(np.ptp(mesh.points, axis=0).max())):
        raise InputError(
            f"The grid's cell is {cell:g} m, but the whole body is {size:g} m long; take a "
            "quarter of its thinnest part."
        )
    if not is_integer(rng_seed) or rng_seed < 0:
        raise InputError(
            f"The seed of the jitter is {quoted(rng_seed)}; it must be an integer of 0 or more."
        )
    body = Particles(
        mesh=mesh,
        samples=sample_particles(mesh, spacing=cell / per_cell, method=seeding, rng_seed=rng_seed),
        materials=robot.materials_by_region(),
        thickness=robot.thickness,
        snap=robot.snap,
    )
    # thickness of a slab with this volume and surface; a rod is twice as thick
    thickness = 2.0 * float(body.volumes().sum() / body.node_areas(None, lumped=True).sum())
    if cell > 1.5 * thickness:
        warnings.warn(
            f"The grid's cell is {cell:g} m and the body about {thickness:.2g} m thick, so that it "
            "cannot bend well; take a quarter of its thickness."
        )
    return body


def warn_of_narrow_cavities(robot: Robot, mesh: Mesh, cell: float) -> None:
    """Warn if the walls of a cavity with a fluid are so close that the grid joins them."""
    for name, actuator in robot.actuators.items():
        cavity = cavity_of(actuator)
        if cavity is None or cavity not in mesh.surfaces:
            continue
        width = cavity_width(mesh, cavity)
        if width < 0.999 * NARROW * cell:
            warnings.warn(
                f"Actuator '{name}': the cavity '{cavity}' is about {width:.2g} m wide, and the "
                f"grid joins walls that are closer than {NARROW:g} cells of {cell:g} m; take "
                f"cell={width / NARROW:.2g} or less."
            )


def stable_substep(
    fields: MaterialFields, cell: float, viscosity: float, frequency: float = 0.0
) -> float:
    """Return the time [s] in which the fastest pressure wave crosses a cell [Spielberg2021,
    section 3.7], reduced by viscosity [s] and by springs of an angular frequency [rad/s]. The
    wave's modulus is lam + 2 mu, plus 2 bulk if the power is 2."""
    speed = _wave_speed(fields)
    damped = viscosity * speed / cell
    wave = cell / speed * (np.sqrt(1.0 + damped**2) - damped)
    # an explicit substep is stable up to 2 / frequency
    return float(1.0 / np.sqrt(1.0 / wave**2 + frequency**2 / 4.0))


def _wave_speed(fields: MaterialFields) -> float:
    """Return the speed [m/s] of the fastest pressure wave."""
    m = fields.moduli
    modulus = m[:, 1] + 2.0 * m[:, 0] + 2.0 * m[:, 2] * (fields.power == 2)
    return float(np.sqrt(modulus / fields.density).max())


def checked_substeps(
    robot: Robot, body: Particles | ReferenceGrid, dt: float, cell: float, substeps: int | None
) -> int:
    """Return the number of substeps per step [s], by default one that is stable.

    Raises `InputError` for unstable substeps, and warns if damping makes them costly."""
    highest = highest_frequency(
        particle_potentials(robot, body),
        robot,
        body,
        cell,
        body.fields.density * body.volumes(),
    )

    def stable(viscosity: float) -> float:
        return stable_substep(body.fields, cell, viscosity, highest)

    def count(viscosity: float) -> int:
        return max(1, int(np.ceil(dt / (DEFAULT_FRACTION * stable(viscosity)))))

    damping = robot.damping.stiffness
    least, undamped = count(damping), count(0.0)
    if substeps is None:
        if least > COSTLY_RATIO * undamped:
            cheap = 0.75 * cell / _wave_speed(body.fields)  # doubles them: sqrt(1 + d^2) - d = 1/2
            warnings.warn(
                f"The stiffness damping of {damping:g} s takes {least} substeps per step, in place "
                f"of {undamped} without it, because particles are stepped explicitly. Use "
                f"Damping(mass=...), or a stiffness of at most {cheap:.1g} s, which takes about "
                f"{2 * undamped}."
            )
        return least
    if not is_integer(substeps) or substeps < 1:
        raise InputError(
            f"The number of substeps is {quoted(substeps)}; it must be an integer of 1 or more."
        )
    if dt / substeps > STABLE_FRACTION * stable(damping):
        wave = stable_substep(body.fields, cell, damping)
        springs = (
            f" and the actuators oscillate in {2.0 * np.pi / highest:.3g} s"
            if highest > 0.0
            else ""
        )
        raise InputError(
            f"A substep of {dt / substeps:.3g} s is not stable: a wave crosses a cell of "
            f"{cell:g} m in {wave:.3g} s{springs}. Take substeps={least}, that is "
            f"{dt / least:.3g} s each."
        )
    return substeps
