"""Export of particles to VTK files."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pliant.core import Array, InputError, is_integer, quoted
from pliant.mpm.material_point import MaterialPoint
from pliant.report.particle_scene import checked_states, strain_size
from pliant.store import PointFrame, write_point_frames


def write_vtk(folder: str | Path, model: MaterialPoint, states: Array, *, every: int = 1) -> Path:
    """Write states (frames, n_state) as particles-000000.vtu, ... and particles.pvd, and return the
    path of the latter. The states are `dt` apart; `every` writes only each `every`-th one.

    Each particle has its velocity [m/s], strain [-] (norm of the Green strain), J [-] (volume
    ratio) and material, the index in the order of the robot's materials."""
    states = checked_states(model, states)
    if not is_integer(every) or every < 1:
        raise InputError(f"`every` is {quoted(every)}. Give a whole number of at least 1.")
    return write_point_frames(folder, _frames(model, states, every))


def _frames(model: MaterialPoint, states: Array, every: int) -> Iterator[PointFrame]:
    material = np.zeros(model.body.n_particles, np.int64)
    for k, cells in enumerate(model.body.material_cells.values()):
        material[cells] = k
    for k in range(0, len(states), every):
        particles = model.particles(states[k])
        fields = {
            "velocity": particles.velocity,
            "strain": strain_size(particles.deformation),
            "J": np.linalg.det(particles.deformation),
            "material": material,
        }
        yield PointFrame(time=k * model.dt, points=particles.position, fields=fields)
