"""Compare a filled mesh with the surface that it fills."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from pliant.core import Array, counted, require_kind
from pliant.geometry.cavities import connected_parts, find_cavities, signed_enclosed_volume
from pliant.geometry.distance import distance_to_simplices, quasirandom_points, sample_surface
from pliant.geometry.mesh import Mesh
from pliant.geometry.pieces import label_pieces
from pliant.geometry.shapes import Domain
from pliant.geometry.surface import Surface, enclosed_volume
from pliant.geometry.winding import cluster_triangles, winding_numbers

N_SAMPLES = 8192  # points in a bounding box, to estimate volumes and the contents of voids
CHUNK_SIZE = 256  # of the farthest points that are tested at once
# Of the volume of a void. A cavity with over half of its points has about half of its volume; the
# difference allows for sampling errors and curved walls.
MIN_KEPT_FRACTION = 0.4
N_STANDARD_DEVIATIONS = 4.0  # standard deviations of a sampled volume


@dataclass(frozen=True, kw_only=True)
class FillTolerances:
    """Limits for the difference between a mesh and the surface that it fills."""

    # Smooth and straight bodies keep 95 % of their volume from about 12 cells along the diagonal.
    volume_warning: float = 0.05
    # With a single cell across each wall a sound mesh keeps 85 %; below 80 % walls are missing.
    volume_error: float = 0.2
    # [cells] Stuffing rounds off straight edges and corners by up to 0.6 cells.
    distance_warning: float = 1.0
    # Of the diagonal. A sharp tip loses a fixed number of cells, however small they are.
    negligible_distance: float = 0.02
    # Of the volume. Loose pieces that have less than this in total are dropped.
    loose_volume: float = 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class FillReport:
    """The difference between a mesh and the surface that it fills."""

    cell: float  # [m]
    size: float  # [m], diagonal of the surface
    mesh_volume: float  # [m^3]
    surface_volume: float  # [m^3]
    pieces: int  # of the mesh, connected through facets
    surface_pieces: int  # separate outward parts of the surface
    cavities: int  # voids of the surface that are larger than a cell
    lost_cavities: tuple[tuple[float, Array], ...]  # volume [m^3] and place (3,) [m] of each
    small_parts: int  # voids and pieces of the surface that are smaller than a cell
    distance: float  # [m], the largest from a point of the surface to the boundary of the mesh
    farthest: Array  # (3,) [m], that point

    @property
    def volume_ratio(self) -> float:
        """Return the volume of the mesh divided by that of the surface."""
        return self.mesh_volume / self.surface_volume

    def errors(self, tolerances: FillTolerances | None = None) -> list[str]:
        """Return the errors that make the mesh unusable; empty for a valid mesh."""
        limits, found = resolve_tolerances(tolerances), []
        if abs(self.volume_ratio - 1.0) > limits.volume_error:
            found.append(f"it has {100 * self.volume_ratio:.0f} % of the volume")
        if self.pieces > self.surface_pieces:
            found.append(f"it falls into {self.pieces} pieces instead of {self.surface_pieces}")
        if self.lost_cavities:
            volume, place = max(self.lost_cavities, key=lambda void: void[0])
            found.append(
                f"it loses {len(self.lost_cavities)} of {self._n_cavities()} (the largest has "
                f"{volume:.3g} m^3, near {place.round(6).tolist()} m)"
            )
        return found

    def _n_cavities(self) -> str:
        return counted(self.cavities, "cavity", "cavities")

    def warnings(self, tolerances: FillTolerances | None = None) -> list[str]:
        """Return the inaccuracies of the mesh; empty for an accurate mesh."""
        limits, found = resolve_tolerances(tolerances), []
        if abs(self.volume_ratio - 1.0) > limits.volume_warning:
            found.append(f"it has {100 * self.volume_ratio:.1f} % of the volume")
        if self.distance > self.allowed_distance(limits):
            found.append(f"the surface is {self.gap()}")
        return found

    def summary(self) -> str:
        """Return volume, cavities and distance in one line."""
        kept = self.cavities - len(self.lost_cavities)
        cavities = f"{kept} of {self._n_cavities()}, " if self.cavities else ""
        return (
            f"{self.surface_volume:.4g} m^3, of which the mesh has {100 * self.volume_ratio:.1f} "
            f"%; {cavities}{self.gap()}"
        )

    def gap(self) -> str:
        """Return a description of the largest distance."""
        return (
            f"up to {self.distance:.3g} m ({self.distance / self.cell:.1f} cells) away, near "
            f"{self.farthest.round(6).tolist()} m"
        )

    def allowed_distance(self, tolerances: FillTolerances) -> float:
        """Return the distance [m] below which there is no warning."""
        of_cell, of_size = tolerances.distance_warning, tolerances.negligible_distance
        return max(of_cell * self.cell, of_size * self.size)

    def estimated_cell(self, tolerances: FillTolerances | None = None) -> float:
        """Return a cell size [m] without warnings.

        The estimate assumes that the volume converges quadratically and the distance linearly.
        """
        limits = resolve_tolerances(tolerances)
        error, share = abs(self.volume_ratio - 1.0), 1.0
        if error > limits.volume_warning:
            share = 0.9 * (limits.volume_warning / error) ** 0.5
        if self.distance > self.allowed_distance(limits):
            share = min(share, 0.9 * limits.negligible_distance * self.size / self.distance)
        return float(f"{share * self.cell:.2g}")


def resolve_tolerances(tolerances: FillTolerances | None) -> FillTolerances:
    """Return `tolerances`, or the default ones for None. Raises `InputError` for another type."""
    limits = FillTolerances() if tolerances is None else tolerances
    require_kind("`tolerances`", limits, FillTolerances, "give geometry.FillTolerances(...)")
    return limits


def compare_fill(
    mesh: Mesh, surface: Surface, cell: float, tolerances: FillTolerances | None = None
) -> FillReport:
    """Compare `mesh` with the closed `surface` that it fills with cells of about `cell` [m]."""
    limits = resolve_tolerances(tolerances)
    parts = connected_parts(surface.points, surface.triangles)
    volumes = np.array([enclosed_volume(surface.points, part) for part in parts])
    is_large = np.abs(volumes) > cell**3
    is_large |= ~is_large.any()
    voids = [parts[k] for k in np.flatnonzero(is_large & (volumes < 0.0))]
    mesh_volume = float(mesh.volumes().sum())
    samples = sample_surface(surface.points, [parts[k] for k in np.flatnonzero(is_large)], cell)
    distance = distance_to_simplices(samples, mesh.points[mesh.boundary()[:, :3]])
    farthest = find_farthest_point(surface, samples, distance, cell)
    return FillReport(
        cell=cell,
        size=float(np.linalg.norm(np.ptp(surface.points, axis=0))),
        mesh_volume=mesh_volume,
        surface_volume=solid_volume(surface, mesh_volume, limits.volume_warning),
        pieces=int(label_pieces(mesh).max()) + 1,
        surface_pieces=surface.n_pieces,
        cavities=len(voids),
        lost_cavities=find_lost_cavities(mesh, surface.points, voids),
        small_parts=int((~is_large).sum()),
        distance=float(distance[farthest]),
        farthest=samples[farthest],
    )


def find_farthest_point(surface: Surface, points: Array, distance: Array, cell: float) -> int:
    """Return the index of the farthest surface point that lies on the boundary of the body.

    If parts of the surface overlap, some of its points are inside the body.
    """
    # Far beyond the rounding of the winding number, and far below the distance of a cell.
    around = 1e-3 * cell * np.array(list(product((-1.0, 0.0, 1.0), repeat=3)))
    far = np.argsort(-distance)
    for start in range(0, int((distance > cell).sum()), CHUNK_SIZE):
        chunk = far[start : start + CHUNK_SIZE]
        near = (points[chunk, None] + around).reshape(-1, 3)
        is_inside = np.all(surface.contains(near).reshape(len(chunk), -1), axis=1)
        if not is_inside.all():
            return int(chunk[is_inside.argmin()])
    return int(far[np.searchsorted(-distance[far], -cell, side="left") % len(far)])


def solid_volume(surface: Surface, expected: float, tolerance: float) -> float:
    """Return the volume [m^3] inside the surface.

    If parts overlap, the signed volume counts some of it twice. So the volume is sampled if the
    signed and the expected volume differ by more than the relative `tolerance`.
    """
    signed = surface.volume()
    if abs(expected / signed - 1.0) < tolerance:
        return signed
    sampled, box = sampled_volume(surface), float(np.prod(np.ptp(surface.points, axis=0)))
    deviation = (sampled * (box - sampled) / N_SAMPLES) ** 0.5
    return signed if abs(sampled - signed) < N_STANDARD_DEVIATIONS * deviation else sampled


def sampled_volume(domain: Domain) -> float:
    """Return an estimate of the volume [m^3] (area [m^2] in 2D) by points in the bounding box."""
    lower, upper = domain.bounds()
    is_inside = domain.contains(lower + quasirandom_points(N_SAMPLES, domain.dim) * (upper - lower))
    return float(is_inside.sum() + 0.5) / (N_SAMPLES + 1) * float(np.prod(upper - lower))


def find_lost_cavities(
    mesh: Mesh, points: Array, voids: Sequence[Array]
) -> tuple[tuple[float, Array], ...]:
    """Return volume and location of the voids that no cavity of the mesh represents.

    A cavity represents a void if it contains most of that void and no other void.
    """
    walls = find_cavities(mesh) if voids else []
    held = [-signed_enclosed_volume(mesh.points, wall) for wall in walls]
    free, lost = set(range(len(walls))), []
    for void in voids:
        volume, inside = -enclosed_volume(points, void), sample_void(points, void)
        match = next(
            (
                k
                for k in sorted(free)
                if held[k] > MIN_KEPT_FRACTION * volume
                and most_are_inside(inside, mesh.points[walls[k]])
            ),
            None,
        )
        if match is None:
            lost.append((volume, points[void].mean(axis=(0, 1))))
        else:
            free.remove(match)
    return tuple(lost)


def sample_void(points: Array, void: Array) -> Array:
    """Return points (k, 3) [m] in the void inside inward triangles."""
    corners = points[void]
    lower, upper = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
    inside_box = lower + quasirandom_points(N_SAMPLES // 4) * (upper - lower)
    return inside_box[winding_numbers(cluster_triangles(corners), inside_box) < -0.5]


def most_are_inside(points: Array, wall: Array) -> bool:
    """Return whether the wall (m, nodes, 3) of a cavity encloses over half of the points."""
    around = winding_numbers(cluster_triangles(wall[:, :3]), points) < -0.5
    return bool(2 * around.sum() > len(points))
