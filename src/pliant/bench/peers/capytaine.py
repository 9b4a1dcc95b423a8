"""The added mass of linked bodies by Capytaine, a boundary element code for ships, in an unbounded
fluid: no free surface and no bottom."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pliant.core import Array, MissingExtra


def added_mass_with_capytaine(
    corners: Array, velocities: Array, density: float
) -> Callable[[], Array]:
    """Return a function that computes the added mass (m, m) for m unit velocities.

    corners (k, 3, 3) [m] are outward triangles, velocities (m, k, 3) those of their centroids. The
    mesh and the tables that Capytaine reads from a file are made before.
    """
    capytaine = _import_capytaine()
    k = len(corners)
    faces = np.arange(3 * k).reshape(k, 3)[:, [0, 1, 2, 0]]  # a triangle repeats its first corner
    mesh = capytaine.Mesh(vertices=corners.reshape(-1, 3), faces=faces)
    names = [f"velocity {j}" for j in range(len(velocities))]
    body = capytaine.FloatingBody(mesh=mesh, dofs=dict(zip(names, velocities, strict=True)))
    infinite = {"free_surface": np.inf, "water_depth": np.inf}
    problems = [
        capytaine.RadiationProblem(
            body=body, radiating_dof=name, rho=density, omega=1.0, **infinite
        )
        for name in names
    ]

    def run() -> Array:
        # a new one, because it keeps the last matrix; its default method is less accurate here
        solver = capytaine.BEMSolver(method="direct")
        found = solver.solve_all(problems, keep_details=False, progress_bar=False)
        return np.array([[result.added_masses[name] for name in names] for result in found])

    return run


def _import_capytaine() -> Any:
    try:
        import capytaine
    except ImportError as error:
        raise MissingExtra(
            "Capytaine is not installed. Run: pip install 'pliant[bench]'."
        ) from error
    capytaine.set_logging("ERROR")
    return capytaine
