"""trimesh with embree as a peer: one ray for each column, its hits sorted, matched and shared out
as the columns of the paper are."""

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from pliant.core import Array, MissingExtra
from pliant.geometry import Surface


@dataclass(frozen=True, kw_only=True)
class Cast:
    """What the rays found."""

    volume: float  # [m^3]
    weights: Array  # (n,) [N]
    unmatched: int  # rays that enter and do not leave; they are left out
    build: float  # [s], of the scene, which must be built anew when the wall has moved
    cast: float  # [s], of the rays
    share: float  # [s], to sort, match and distribute


def weigh_with_embree(surface: Surface, grid: int, *, density: float, g: float) -> Cast:
    """The weight of the fluid in a wall, gravity g [m/s^2] along -z, by rays upwards through grid x
    grid columns."""
    start = perf_counter()
    caster = _caster(surface)
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
    volume, weights, unmatched = _shared_out(
        surface, met, ray, at, float(density * g * step[0] * step[1]), len(origins)
    )
    end = perf_counter()
    return Cast(
        volume=volume / (density * g),
        weights=weights,
        unmatched=unmatched,
        build=built - start,
        cast=cast - built,
        share=end - cast,
    )


def _caster(surface: Surface) -> Any:
    try:
        import trimesh
        from trimesh.ray.ray_pyembree import RayMeshIntersector
    except ImportError as error:
        raise MissingExtra(
            "The peer of the columns needs embree, which is not installed; run `pip install "
            "'pliant[bench]'`."
        ) from error
    caster = RayMeshIntersector(trimesh.Trimesh(surface.points, surface.triangles, process=False))
    _ = caster._scene  # which it would build with the first ray
    return caster


def _shared_out(
    surface: Surface, met: Array, ray: Array, at: Array, weight: float, rays: int
) -> tuple[float, Array, int]:
    """(total [N], on each node [N], rays left out), with a section of a metre weighing `weight`
    [N]."""
    import trimesh

    order = np.lexsort((at[:, 2], ray))
    met, ray, at = met[order], ray[order], at[order]
    corners = surface.points[surface.triangles[met]]
    up = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])[:, 2] > 0.0
    first = np.flatnonzero(np.diff(ray, prepend=-1))
    count = np.diff(np.append(first, len(ray)))
    place = np.arange(len(ray)) - np.repeat(first, count)
    right = np.logical_and.reduceat(up == (place % 2 == 1), first) & (
        count % 2 == 0
    )  # bottom, top, bottom, top...
    bottom = np.flatnonzero(np.repeat(right, count) & ~up)
    load = weight * (at[bottom + 1, 2] - at[bottom, 2])
    shares = trimesh.triangles.points_to_barycentric(corners[bottom], at[bottom]) * load[:, None]
    weights = np.bincount(
        surface.triangles[met[bottom]].ravel(), shares.ravel(), minlength=len(surface.points)
    )
    return float(load.sum()), weights, int(np.count_nonzero(~right))
