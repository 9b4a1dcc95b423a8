"""The weight of a liquid by ray casting with embree: one ray per column, whose hits are sorted,
matched in pairs and distributed to the nodes, as in [Rodriguez2017]."""

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from pliant.core import Array, MissingExtra
from pliant.geometry import Surface


@dataclass(frozen=True, kw_only=True)
class RayCastResult:
    """The result of a ray cast, with the computing times of its parts."""

    volume: float  # [m^3]
    weights: Array  # (n,) [N]
    unmatched: int  # ignored rays that enter the wall but do not leave it
    build: float  # [s], of the scene, which is built again when the wall moves
    cast: float  # [s], of the rays
    distribute: float  # [s], to sort, match and distribute the hits


def weigh_with_embree(surface: Surface, grid: int, *, density: float, g: float) -> RayCastResult:
    """Return the nodal weights of the liquid in a closed wall, by upward rays in grid x grid
    columns. Gravity g [m/s^2] acts along -z."""
    start = perf_counter()
    caster = _ray_intersector(surface)
    built = perf_counter()
    lower, upper = surface.bounds()
    step = (upper - lower)[:2] / grid
    places = np.indices((grid, grid)).reshape(2, -1).T
    origins = np.column_stack(
        [lower[:2] + step * (places + 0.5), np.full(len(places), 2.0 * lower[2] - upper[2])]
    )
    met, ray, at = caster.intersects_id(
        origins,
        np.tile([0.0, 0.0, 1.0], (len(origins), 1)),
        multiple_hits=True,
        return_locations=True,
    )
    cast = perf_counter()
    volume, weights, unmatched = _distribute(
        surface, met, ray, at, float(density * g * step[0] * step[1]), len(origins)
    )
    end = perf_counter()
    return RayCastResult(
        volume=volume / (density * g),
        weights=weights,
        unmatched=unmatched,
        build=built - start,
        cast=cast - built,
        distribute=end - cast,
    )


def _ray_intersector(surface: Surface) -> Any:
    try:
        import trimesh
        from trimesh.ray.ray_pyembree import RayMeshIntersector
    except ImportError as error:
        raise MissingExtra(
            "The comparison with ray casting needs embree. Run: pip install 'pliant[bench]'."
        ) from error
    caster = RayMeshIntersector(trimesh.Trimesh(surface.points, surface.triangles, process=False))
    _ = caster._scene  # otherwise it is built with the first ray
    return caster


def _distribute(
    surface: Surface, met: Array, ray: Array, at: Array, weight: float, rays: int
) -> tuple[float, Array, int]:
    """Return the total weight [N], the nodal weights (n,) [N] and the number of ignored rays.
    `weight` [N/m] is the weight of a column per metre of height."""
    import trimesh

    order = np.lexsort((at[:, 2], ray))
    met, ray, at = met[order], ray[order], at[order]
    corners = surface.points[surface.triangles[met]]
    up = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])[:, 2] > 0.0
    first = np.flatnonzero(np.diff(ray, prepend=-1))
    count = np.diff(np.append(first, len(ray)))
    place = np.arange(len(ray)) - np.repeat(first, count)
    # the hits of a valid ray alternate: bottom, top, bottom, top, ...
    alternates = np.logical_and.reduceat(up == (place % 2 == 1), first)
    valid = alternates & (count % 2 == 0)
    bottom = np.flatnonzero(np.repeat(valid, count) & ~up)
    load = weight * (at[bottom + 1, 2] - at[bottom, 2])
    shares = trimesh.triangles.points_to_barycentric(corners[bottom], at[bottom]) * load[:, None]
    weights = np.bincount(
        surface.triangles[met[bottom]].ravel(), shares.ravel(), minlength=len(surface.points)
    )
    return float(load.sum()), weights, int(np.count_nonzero(~valid))
