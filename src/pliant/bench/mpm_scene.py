"""The scene of `pliant bench mpm`: an elastic block that falls, rotates slowly and hits a floor."""

from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from pliant.core import Array, InputError, nearest

YOUNG, POISSON, DENSITY = 1e5, 0.3, 1000.0  # [Pa], -, [kg/m^3]
GRAVITY = -9.81  # [m/s^2] along the last axis
FALL = -1.0  # [m/s] along the last axis
# cells between the floor and the block; the splines of its lowest particles just reach the floor
GAP = 1.1
COURANT = 0.2  # cells that a pressure wave crosses in one substep
# particles along each axis, two per cell; cell size [m]
SIZES = {"2d": ((160, 80), 1 / 80), "3d": ((75, 45, 25), 1 / 40)}
SMALL = {"2d": (24, 12), "3d": (10, 6, 5)}
SPIN = {  # [1/s] velocity gradient
    "2d": np.array([[0.0, -0.5], [0.5, 0.0]]),
    "3d": np.array([[0.0, -0.4, 0.3], [0.4, 0.0, -0.5], [-0.3, 0.5, 0.0]]),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class MpmScene:
    """Particles, a grid with nodes at multiples of `cell`, and the loss of a run.

    A 2D scene is in plane strain; its masses and volumes are per metre of depth.
    """

    name: str
    x: Array  # (n, dim) [m], positions
    v: Array  # (n, dim) [m/s], velocities; the gradient is with respect to these
    C: Array  # (n, dim, dim) [1/s], affine velocity
    F: Array  # (n, dim, dim), deformation gradient
    mass: Array  # (n,) [kg]
    volume: Array  # (n,) [m^3], at rest
    mu: Array  # (n,) [Pa], Lamé
    lam: Array  # (n,) [Pa], Lamé
    weights: Array  # (n, dim) [1/m], of the loss: the sum of weights . x after the last substep
    gravity: Array  # (dim,) [m/s^2]
    cell: float  # [m]
    tau: float  # [s], one substep
    floor: float  # [m]; nodes at or below it along the last axis do not move down
    substeps: int
    origin: Array  # (dim,) int, first node of the dense grid, in cells
    shape: Array  # (dim,) int, nodes of the dense grid along each axis

    @property
    def dim(self) -> int:
        return self.x.shape[1]


def make_scene(name: str, *, small: bool = False, substeps: int | None = None) -> MpmScene:
    """Return the block "2d" (12,800 particles) or "3d" (84,375) with 50 substeps. `small` has about
    300 particles and 20 substeps."""
    if name not in SIZES:
        raise InputError(f"There is no scene '{name}'; {nearest(name, SIZES)}")
    steps = (20 if small else 50) if substeps is None else substeps
    if steps < 1:
        raise InputError(f"The number of substeps is {steps}. Give at least one.")
    counts, h = (SMALL[name] if small else SIZES[name][0]), SIZES[name][1]
    dim = len(counts)
    low = h * np.array([*[0.0] * (dim - 1), GAP])
    x = low + h / 2 * (
        np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), axis=-1).reshape(-1, dim)
        + 0.5
    )
    n = len(x)
    fall, gravity = np.zeros((2, dim))
    fall[-1], gravity[-1] = FALL, GRAVITY
    v = fall + (x - x.mean(axis=0)) @ SPIN[name].T
    mu, lam = YOUNG / (2 * (1 + POISSON)), YOUNG * POISSON / ((1 + POISSON) * (1 - 2 * POISSON))
    tau = COURANT * h * sqrt(DENSITY / (lam + 2 * mu))
    origin, shape = _grid(x / h, _travel(v, steps * tau) / h)
    volume = np.full(n, (h / 2) ** dim)
    return MpmScene(
        name=f"{name}-small" if small else name,
        x=x,
        v=v,
        C=np.tile(SPIN[name], (n, 1, 1)),
        F=np.tile(np.eye(dim), (n, 1, 1)),
        mass=DENSITY * volume,
        volume=volume,
        mu=np.full(n, mu),
        lam=np.full(n, lam),
        weights=np.random.default_rng(4).standard_normal((n, dim)),
        gravity=gravity,
        cell=h,
        tau=tau,
        floor=0.0,
        substeps=steps,
        origin=origin,
        shape=shape,
    )


def _travel(v: Array, time: float) -> float:
    """Return a bound [m] on the displacement of a particle, with a margin of one half for the
    bounce."""
    return 1.5 * time * (float(np.linalg.norm(v, axis=1).max()) + abs(GRAVITY) * time)


def _grid(x: Array, travel: float) -> tuple[Array, Array]:
    """Return the first node and the number of nodes along each axis of a grid that contains the
    stencils of all particles. The stencil of x lies within [floor(x) - 1, floor(x) + 2]."""
    low, high = np.floor(x.min(axis=0)).astype(np.int64), np.floor(x.max(axis=0)).astype(np.int64)
    margin = ceil(travel)
    origin = low - 1 - margin
    return origin, high + 2 + margin - origin + 1
