"""Scenes of linked robots: the surfaces of rigid links and the locus of the centre of mass."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial import ConvexHull

from pliant.core import Array, InputError, Space, finite_array, quaternion_rotation
from pliant.report import palette
from pliant.report.scene import DrawnScene, Line
from pliant.swimming import LinkedRobot, Placement
from pliant.swimming.link_shapes import ELLIPSOID_POINTS

VIEW = (-70.0, 40.0)  # [deg] azimuth and elevation: from above, since most swimmers move on a plane
POTENTIAL_LABEL = "potential [m²/s]"


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkPoses:
    """The poses of a linked robot in a sequence of frames."""

    root: Array  # (frames, 3) [m] origin of the root's frame
    orientation: Array  # (frames, 4) unit quaternions of the root, scalar first
    angles: Array  # (frames, n_hinges) [rad]

    def __post_init__(self) -> None:
        for name, width in (("root", 3), ("orientation", 4), ("angles", None)):
            value = finite_array(f"The {name} of the poses", getattr(self, name), (None, width))
            object.__setattr__(self, name, value)  # frozen dataclass
        if not len(self.root) == len(self.orientation) == len(self.angles):
            raise InputError(
                f"The poses have {len(self.root)} roots, {len(self.orientation)} orientations and "
                f"{len(self.angles)} rows of angles; give one of each for every frame."
            )


def link_poses(space: Space, states: Array) -> LinkPoses:
    """Return the poses of states (frames, n_state) whose parts include "root", "orientation" and
    "angles"."""
    ends = dict(zip(space.parts, zip(space.starts, space.starts[1:], strict=False), strict=True))
    part = lambda name: states[:, slice(*ends[name])]
    return LinkPoses(root=part("root"), orientation=part("orientation"), angles=part("angles"))


def rest_pose(robot: LinkedRobot) -> LinkPoses:
    """Return one frame with all joint angles zero and the root at the origin."""
    return LinkPoses(
        root=np.zeros((1, 3)),
        orientation=np.array([[1.0, 0.0, 0.0, 0.0]]),
        angles=np.zeros((1, robot.n_angles)),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkSurfaces:
    """The triangulated surfaces of all links, each in the frame of its link."""

    points: tuple[Array, ...]  # (k, 3) [m] of each link
    triangles: Array  # (m, 3) indices of the points of all links
    # (all points, all quadrature points) maps values at the quadrature points to the points
    interpolation: Any

    def at(self, robot: LinkedRobot, poses: LinkPoses) -> Array:
        """Return the points of all links (frames, n, 3) [m]."""
        out = []
        for R, root, placed in _placements(robot, poses):
            links = zip(self.points, placed.rotations, placed.centres, strict=True)
            out.append(np.concatenate([x @ A.T + c for x, A, c in links]) @ R.T + root)
        return np.stack(out)


def link_surfaces(robot: LinkedRobot, points: int = ELLIPSOID_POINTS) -> LinkSurfaces:
    """Return the surfaces of the links of a robot. The vertices of an ellipsoid are its `points`
    quadrature points, those of a closed surface are its own."""
    made = [_link_surface(link.shape, points) for link in robot.links.values()]
    starts = np.cumsum([0, *(len(vertices) for vertices, _, _ in made)])
    return LinkSurfaces(
        points=tuple(vertices for vertices, _, _ in made),
        triangles=np.concatenate(
            [cells + n for (_, cells, _), n in zip(made, starts, strict=False)]
        ),
        interpolation=sparse.block_diag([weights for _, _, weights in made], format="csr"),
    )


def _link_surface(shape: Any, count: int) -> tuple[Array, Array, Any]:
    """Return points (k, 3), outward triangles (m, 3) and the interpolation (k, n_quadrature)."""
    if shape.semi_axes is not None:
        points, _ = shape.quadrature(count)
        unit = points / shape.semi_axes
        cells = np.array(ConvexHull(unit).simplices, int)
        inward = np.linalg.det(unit[cells]) < 0.0
        cells[inward] = cells[inward][:, ::-1]
        return points, cells, sparse.eye_array(len(points))
    surface = shape.surface()
    cells = np.asarray(surface.triangles)
    areas = np.linalg.norm(shape.quadrature(count)[1], axis=1)
    corner = sparse.csr_array(  # a value at the centre of each triangle, weighted by its area
        (np.repeat(areas, 3), (cells.ravel(), np.repeat(np.arange(len(cells)), 3))),
        shape=(len(surface.points), len(cells)),
    )
    total = np.asarray(corner.sum(axis=1)).ravel()
    return surface.points, cells, sparse.diags_array(1.0 / total) @ corner


def _placements(robot: LinkedRobot, poses: LinkPoses) -> Iterator[tuple[Array, Array, Placement]]:
    """Yield the rotation (3, 3) and the position (3,) of the root and the placement of the links in
    each frame."""
    for R, root, theta in zip(
        quaternion_rotation(poses.orientation), poses.root, poses.angles, strict=True
    ):
        yield R, root, robot.placement(theta)


def mass_centres(robot: LinkedRobot, poses: LinkPoses) -> Array:
    """Return the centre of mass (frames, 3) [m] of a robot."""
    placements = _placements(robot, poses)
    return np.array([R @ robot.centre_of_mass(placed) + root for R, root, placed in placements])


def link_scene(
    robot: LinkedRobot,
    poses: LinkPoses,
    *,
    dt: float | None,
    title: str,
    targets: Array | None = None,
    potential: Array | None = None,
    points: int = ELLIPSOID_POINTS,
) -> DrawnScene:
    """Return a scene of a linked robot with the locus of its centre of mass.

    `potential` (frames, n) [m^2/s] at the quadrature points of all links, with `points` of them on
    an ellipsoid, is shown as colour.
    """
    surfaces = link_surfaces(robot, points)
    centre = mass_centres(robot, poses)
    values = None if potential is None else _vertex_values(surfaces, potential, len(centre))
    return DrawnScene(
        frames=surfaces.at(robot, poses),
        facets=surfaces.triangles,
        dt=dt,
        title=title,
        values=values,
        value_label="" if values is None else POTENTIAL_LABEL,
        markers=centre[:, None],
        lines=_hinge_lines(robot, poses),
        targets=targets,
        view=VIEW,
        key=_key(moving=len(centre) > 1, hinges=robot.n_angles > 0, target=targets is not None),
    )


def _key(*, moving: bool, hinges: bool, target: bool) -> str:
    """Return the meaning of the marks in the picture."""
    centre = "dot and line: centre of mass and its locus" if moving else "dot: centre of mass"
    others = (("bars: hinge axes", hinges), ("cross: target", target))
    return "; ".join([centre, *(text for text, shown in others if shown)])


def _hinge_lines(robot: LinkedRobot, poses: LinkPoses) -> tuple[Line, ...]:
    """Return the axes of all hinges as short lines, a quarter of the size of the child link."""
    halves = [0.125 * robot.links[hinge.child].size for hinge in robot.hinges.values()]
    frames = []
    for R, root, placed in _placements(robot, poses):
        ends = np.array(halves).reshape(-1, 1) * placed.axes
        frames.append(np.stack([placed.anchors - ends, placed.anchors + ends], 1) @ R.T + root)
    lines = np.array(frames).swapaxes(0, 1)  # (hinges, frames, 2, 3)
    return tuple(Line(points=line, colour=palette.SECONDARY) for line in lines)


def _vertex_values(surfaces: LinkSurfaces, potential: Array, count: int) -> Array:
    size = surfaces.interpolation.shape[1]
    found = finite_array("The potential", potential, (count, size), "m^2/s")
    return np.asarray((surfaces.interpolation @ found.T).T)
