"""Small bodies of particles for the tests of MaterialPoint, and their conserved quantities."""

import numpy as np

import pliant as pl
from pliant.actuators import Fluidic, Muscle
from pliant.geometry import Rectangle

LAWS = ("neo-hookean", "fixed-corotated", "linear-corotated")
SOFT = pl.Material(E=1e4, nu=0.3)


def box(size, origin=None):
    """Return a rectangle for two sizes or a box for three."""
    size = tuple(size)
    return (Rectangle if len(size) == 2 else pl.Box)(
        size=size, origin=tuple(np.zeros(len(size)) if origin is None else origin)
    )


def block(dim, *, size=0.1, origin=None, **parts):
    """Return a robot in the shape of a square or a cube."""
    return pl.Robot(
        **(
            {
                "shape": box((size,) * dim, origin),
                "material": SOFT,
                "order": 1,
                "divisions": (2,) * dim,
            }
            | parts
        )
    )


def drives(dim, size=0.1, origin=0.0):
    """Return a cable, a muscle in one corner and a fluidic actuator in the whole block."""
    route = np.array([[0.2, 0.3, 0.2], [0.5, 0.4, 0.8], [0.9, 0.8, 0.7]])[:, :dim] * size + origin
    half = box((size / 2,) * dim, np.zeros(dim) + origin)
    return {
        "cable": pl.Cable(points=route),
        "pull": Muscle(region=half, axis=(1.0, 0.3, 0.2)[:dim]),
        "swell": Fluidic(region="body"),
    }


def stirred(model, rng, *, velocity=1.0, affine=5.0, strain=0.1):
    """Return a state with random velocities, affine fields and strains."""
    n, d = model.body.n_particles, model.dim
    return model.state(
        model.body.rest,
        velocity * rng.standard_normal(n * d),
        affine * rng.standard_normal((n, d, d)),
        np.eye(d) + strain * rng.uniform(-1, 1, (n, d, d)),
    )


def tables(model, x):
    """Return positions (n, dim), velocities (n, dim), affine fields (n, dim, dim) and deformation
    gradients (n, dim, dim)."""
    parts, d = model.space.split(x), model.dim
    return (
        parts.position.reshape(-1, d),
        parts.velocity.reshape(-1, d),
        parts.affine.reshape(-1, d, d),
        parts.deformation.reshape(-1, d, d),
    )


def masses(model):
    return model.coefficients(None).particle_data.mass


def momentum(model, x):
    """Return the momentum (dim,) [kg m/s]."""
    return masses(model) @ tables(model, x)[1]


def angular_momentum(model, x):
    """Return the angular momentum (3,) [kg m^2/s] about the origin: sum m (x cross v + h^2/4
    axial(C)).

    A quadratic spline has the second moment h^2/4."""
    at, v, C, _ = tables(model, x)
    full = lambda a: np.pad(a, [(0, 0)] + [(0, 3 - model.dim)] * (a.ndim - 1))
    C = full(C)
    spin = np.stack(
        [C[:, 2, 1] - C[:, 1, 2], C[:, 0, 2] - C[:, 2, 0], C[:, 1, 0] - C[:, 0, 1]], axis=1
    )
    return masses(model) @ (np.cross(full(at), full(v)) + model.cell**2 / 4.0 * spin)


def energy(model, x):
    """Return the kinetic energy, including the affine field, plus the elastic energy [J].

    The elastic energy depends on the stretches s and J = det F [Spielberg2021, eq. 12 and 13]."""
    _, v, C, F = tables(model, x)
    kinetic = (
        0.5
        * masses(model)
        @ (np.sum(v * v, axis=1) + model.cell**2 / 4.0 * np.sum(C * C, axis=(1, 2)))
    )
    s = np.linalg.svd(F, compute_uv=False)
    J, mu, lam = np.linalg.det(F), model.body.fields.moduli[:, 0], model.body.fields.moduli[:, 1]
    if model.robot.material.law == "neo-hookean":
        density = (
            0.5 * mu * np.sum(s * s - 1.0, axis=1) - mu * np.log(J) + 0.5 * lam * np.log(J) ** 2
        )
    else:
        swell = (
            J - 1.0 if model.robot.material.law == "fixed-corotated" else np.sum(s - 1.0, axis=1)
        )
        density = mu * np.sum((s - 1.0) ** 2, axis=1) + 0.5 * lam * swell**2
    return float(kinetic + model.body.volumes() @ density)
