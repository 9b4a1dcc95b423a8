"""Drake's deformable bodies as a peer: the same clamped arm, mesh, gravity and time step, stepped
by MultibodyPlant.

Drake is not backward Euler with a consistent mass. From its sources, and confirmed by replaying its
steps: it solves M (v' - v) / h = f(q') + f_gravity with q' = q + h (v + v') / 2 (Newmark with beta
1/2, gamma 1), M comes from one quadrature point a tetrahedron (rho V / 16 between any two of its
nodes), and the corotated law stops at 1e-2 of the first residual. The linear law takes each
rotation from the start of the step, and so solves one linear system.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from pliant.bench.peers.fem_case import Case, PeerRun, check_mesh
from pliant.core import Array, InputError, MissingExtra, StepError

MATERIALS = {"corotated": "kCorotated", "linear": "kLinearCorotated"}


def step_with_drake(case: Case, *, steps: int, law: str = "corotated") -> PeerRun:
    """The arm from rest under gravity in Drake, without damping or contact."""
    if law not in MATERIALS:
        raise InputError(f"Drake has no law {law!r} here. Choose one of {sorted(MATERIALS)}.")
    check_mesh(case)
    analysis, fem, framework, plants = _import_drake()
    material = fem.DeformableBodyConfig()  # which has no damping unless told
    material.set_youngs_modulus(case.young)
    material.set_poissons_ratio(case.poisson)
    material.set_mass_density(case.density)
    material.set_material_model(getattr(fem.MaterialModel, MATERIALS[law]))

    builder = framework.DiagramBuilder()
    plant, _ = plants.AddMultibodyPlantSceneGraph(builder, time_step=case.dt)
    plant.mutable_gravity_field().set_gravity_vector(case.gravity)
    bodies = plant.mutable_deformable_model()
    with _geometry(case.points, case.cells) as geometry:
        arm = bodies.RegisterDeformableBody(
            geometry, material, 1.0
        )  # the length matters for primitive shapes only
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
    """Seconds of wall clock for the k-th step, which must be one update of the plant's state."""
    start = perf_counter()
    try:
        simulator.AdvanceTo(k * dt)
    except RuntimeError as error:
        raise StepError(f"Drake stopped in step {k}: {error} Halve dt.") from error
    seconds = perf_counter() - start
    # Drake counts a step of a plant with sampled output ports, the default, as an unrestricted
    # update
    updates = simulator.get_num_unrestricted_updates() + simulator.get_num_discrete_updates()
    if updates != k:
        raise StepError(
            f"Drake made {updates} updates in {k} steps of {dt!r} s, so a time is not that of "
            "one step. Choose a dt with fewer digits."
        )
    return seconds


@contextmanager
def _geometry(points: Array, cells: Array) -> Iterator[Any]:
    """The mesh as Drake takes it: a legacy VTK file, which must last until the body is
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
        geometry.set_proximity_properties(
            ProximityProperties()
        )  # Drake aborts without this role, contact or not
        yield geometry


def _wall(points: Array, clamped: Array) -> tuple[Array, Array]:
    """A point on, and the normal of, a plane with just the clamped nodes behind it: all that Drake
    removes exactly."""
    centre = points[clamped].mean(axis=0)
    for axis in np.linalg.svd(points[clamped] - centre, full_matrices=False)[2][::-1]:
        for n in (axis, -axis):
            height = (points - centre) @ n
            last, first = height[clamped].max(), height[~clamped].min()
            if last < first:
                return centre + 0.5 * (last + first) * n, n
    raise InputError(
        "Drake clamps the nodes behind a plane, and no plane along the clamped nodes parts them "
        "from the free ones. Clamp a flat end of the body."
    )
