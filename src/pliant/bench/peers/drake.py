"""The clamped arm as a deformable body of Drake, with the same mesh, gravity and time step.

Drake does not use backward Euler with a consistent mass. Its sources show, and a replay of its
steps confirms, three differences. It solves M (v' - v) / h = f(q') + f_gravity with
q' = q + h (v + v') / 2 (Newmark with beta 1/2, gamma 1). M has one quadrature point per tetrahedron
(rho V / 16 for each pair of its nodes). Newton's method for the corotated law stops at 1e-2 of the
first residual. The linear law takes each rotation from the start of the step and solves one linear
system.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from pliant.bench.peers.fem_case import Case, PeerRun, check_mesh
from pliant.core import Array, InputError, MissingExtra, StepError, counted

MATERIALS = {"corotated": "kCorotated", "linear": "kLinearCorotated"}


def step_with_drake(case: Case, *, steps: int, law: str = "corotated") -> PeerRun:
    """Simulate the arm from rest under gravity with Drake, without damping or contact."""
    if law not in MATERIALS:
        raise InputError(
            f"The benchmark of Drake has no law {law!r}. Choose one of {sorted(MATERIALS)}."
        )
    check_mesh(case)
    analysis, fem, framework, plants = _import_drake()
    material = fem.DeformableBodyConfig()  # no damping by default
    material.set_youngs_modulus(case.young)
    material.set_poissons_ratio(case.poisson)
    material.set_mass_density(case.density)
    material.set_material_model(getattr(fem.MaterialModel, MATERIALS[law]))

    builder = framework.DiagramBuilder()
    plant, _ = plants.AddMultibodyPlantSceneGraph(builder, time_step=case.dt)
    plant.mutable_gravity_field().set_gravity_vector(case.gravity)
    bodies = plant.mutable_deformable_model()
    with _geometry(case.points, case.cells) as geometry:
        # the resolution hint 1.0 [m] only affects primitive shapes
        arm = bodies.RegisterDeformableBody(geometry, material, 1.0)
    bodies.SetWallBoundaryCondition(arm, *_wall(case.points, case.clamped))
    plant.Finalize()

    simulator = analysis.Simulator(builder.Build())
    simulator.Initialize()
    seconds = np.array([_advance(simulator, k, case.dt) for k in range(1, steps + 1)])
    context = plant.GetMyContextFromRoot(simulator.get_context())
    positions = bodies.GetPositions(context, arm).T
    return PeerRun(
        name=f"Drake, {law}", seconds_per_step=seconds, positions=np.ascontiguousarray(positions)
    )


def _import_drake() -> tuple[Any, Any, Any, Any]:
    try:
        from pydrake.multibody import fem
        from pydrake.multibody import plant as plants
        from pydrake.systems import analysis, framework
    except ImportError as error:
        raise MissingExtra("Drake is not installed. Run: pip install 'pliant[bench]'.") from error
    return analysis, fem, framework, plants


def _advance(simulator: Any, k: int, dt: float) -> float:
    """Return the wall-clock time [s] of step k. Raises `StepError` unless it is one update."""
    start = perf_counter()
    try:
        simulator.AdvanceTo(k * dt)
    except RuntimeError as error:
        raise StepError(f"Drake failed in step {k}: {error} Halve dt.") from error
    seconds = perf_counter() - start
    # Drake counts a step of a plant with sampled output ports, the default, as an unrestricted
    # update
    updates = simulator.get_num_unrestricted_updates() + simulator.get_num_discrete_updates()
    if updates != k:
        raise StepError(
            f"Drake made {counted(updates, 'update')} in {counted(k, 'step')} of {dt!r} s, so the "
            "measured time is not that of one step. Choose a dt with fewer digits."
        )
    return seconds


@contextmanager
def _geometry(points: Array, cells: Array) -> Iterator[Any]:
    """Yield the mesh as a Drake geometry from a legacy VTK file, which must exist until the body is
    registered."""
    from pydrake.geometry import GeometryInstance, Mesh, ProximityProperties
    from pydrake.math import RigidTransform

    lines = [
        *(
            "# vtk DataFile Version 3.0",
            "arm",
            "ASCII",
            "DATASET UNSTRUCTURED_GRID",
            f"POINTS {len(points)} double",
        ),
        *(f"{float(x)!r} {float(y)!r} {float(z)!r}" for x, y, z in points),
        f"CELLS {len(cells)} {5 * len(cells)}",
        *(f"4 {a} {b} {c} {d}" for a, b, c, d in cells),
        f"CELL_TYPES {len(cells)}",
        *("10" for _ in cells),  # VTK_TETRA
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "arm.vtk"
        path.write_text("\n".join(lines) + "\n")
        geometry = GeometryInstance(RigidTransform(), Mesh(path), "arm")
        geometry.set_proximity_properties(ProximityProperties())  # Drake aborts without this role
        yield geometry


def _wall(points: Array, clamped: Array) -> tuple[Array, Array]:
    """Return a point [m] and the normal of a plane that separates the clamped nodes from the free
    ones. Drake clamps the nodes behind it. Raises `InputError` if there is no such plane."""
    centre = points[clamped].mean(axis=0)
    for axis in np.linalg.svd(points[clamped] - centre, full_matrices=False)[2][::-1]:
        for n in (axis, -axis):
            height = (points - centre) @ n
            last, first = height[clamped].max(), height[~clamped].min()
            if last < first:
                return centre + 0.5 * (last + first) * n, n
    raise InputError(
        "Drake clamps the nodes behind a plane, but no plane separates the clamped nodes from the "
        "free ones. Clamp a flat end of the body."
    )
