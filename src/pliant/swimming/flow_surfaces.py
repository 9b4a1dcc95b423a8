"""The surfaces of the links in the fluid: quadrature, and what does not depend on the pose."""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array
from pliant.swimming import flow_kernels
from pliant.swimming.link_shapes import LinkShape
from pliant.swimming.placement import Placement


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkSurface:
    """The discretised surface of one link in its own frame.

    The unit velocities of the link are three translations and three rotations about the origin of
    its frame. `interior` are the potentials inside the link that have their normal velocities.
    """

    points: Array  # (P, 3) [m]
    areas: Array  # (P, 3) [m^2] outward normals times areas
    corners: Array  # (P, 3, 3) [m] of the triangles; zero for an ellipsoid
    is_triangle: bool
    interior: Array  # (6, P) [m or m^2]
    fluxes: Array  # (6, P) [m^2 or m^3] normal velocities times areas
    own_block: Array  # (P, P) of I/2 - K


def discretise(shape: LinkShape, count: int) -> LinkSurface:
    """Return the surface of a link, with `count` points if it is an ellipsoid."""
    points, areas = shape.quadrature(count)
    axes = shape.semi_axes
    corners = getattr(shape, "corners", np.zeros((len(points), 3, 3)))
    block = _own_block(points, areas, corners, axes is None)
    fluxes = np.vstack([areas.T, np.cross(points, areas).T])
    interior = (
        _interior_of_triangles(points, areas, corners, block)
        if axes is None
        else _interior_of_ellipsoid(points, axes)
    )
    return LinkSurface(
        points=points,
        areas=areas,
        corners=corners,
        is_triangle=axes is None,
        interior=interior,
        fluxes=fluxes,
        own_block=block,
    )


def _own_block(points: Array, areas: Array, corners: Array, is_triangle: bool) -> Array:
    """Return I/2 - K (P, P). The rows of K sum to -1/2, as the integral of dG/dn does."""
    out = np.empty((len(points), len(points)))
    flow_kernels.fill_double_layer(
        out,
        np.ascontiguousarray(points.T),
        np.ascontiguousarray(areas.T),
        np.ascontiguousarray(corners.reshape(-1, 9).T),
        np.array([0, len(points)]),
        np.array([is_triangle]),
        True,
    )
    np.fill_diagonal(out, 0.0)
    np.fill_diagonal(out, 0.5 if is_triangle else 1.0 - out.sum(axis=1))
    return out


def _interior_of_ellipsoid(points: Array, semi_axes: Array) -> Array:
    """Return x, y, z and (b^2 - c^2) / (b^2 + c^2) y z with its cyclic images, (6, P)."""
    x, y, z = points.T
    a, b, c = semi_axes**2
    rotations = ((b - c) / (b + c) * y * z, (c - a) / (c + a) * z * x, (a - b) / (a + b) * x * y)
    return np.stack([x, y, z, *rotations])


def _interior_of_triangles(points: Array, areas: Array, corners: Array, block: Array) -> Array:
    """Solve (I/2 + K) psi = S v_n, the interior Neumann problem, (6, P).

    The solution is unique up to a constant: the added rank-one term makes its mean zero. With it
    (I/2 - K) mu = -psi has the solution mu = phi - psi of (I/2 - K) phi = -S v_n.
    """
    size = np.linalg.norm(areas, axis=1)
    normals = areas / size[:, None]
    S = flow_kernels.single_layer(
        np.ascontiguousarray(points.T),
        np.ascontiguousarray(normals.T),
        np.ascontiguousarray(corners.reshape(-1, 9).T),
    )
    velocities = np.vstack([normals.T, np.cross(points, normals).T])
    LU = np.eye(len(points)) - block + size / size.sum()
    pivots = flow_kernels.factorise(LU)
    return flow_kernels.solve(LU, pivots, flow_kernels.products(velocities, S))


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacedSurfaces:
    """The surfaces of all links at one pose in the frame of the root, one coordinate per row."""

    points: Array  # (3, P) [m]
    areas: Array  # (3, P) [m^2]
    corners: Array  # (9, P) [m]


def place(surfaces: tuple[LinkSurface, ...], placement: Placement) -> PlacedSurfaces:
    """Return the points, area vectors and corners of all links."""
    points, areas, corners = [], [], []
    for k, surface in enumerate(surfaces):
        R, c = placement.rotations[k], placement.centres[k]
        points.append(_rotated(R, surface.points) + c)
        areas.append(_rotated(R, surface.areas))
        corners.append((_rotated(R, surface.corners.reshape(-1, 3)) + c).reshape(-1, 9))
    return PlacedSurfaces(
        points=np.ascontiguousarray(np.concatenate(points).T),
        areas=np.ascontiguousarray(np.concatenate(areas).T),
        corners=np.ascontiguousarray(np.concatenate(corners).T),
    )


def _rotated(R: Array, vectors: Array) -> Array:
    """Return R v for the rows v of an array (k, 3), in a fixed order of summation."""
    return vectors[:, :1] * R[:, 0] + vectors[:, 1:2] * R[:, 1] + vectors[:, 2:] * R[:, 2]
