"""The sections [links.*] and [hinges.*] of the robot file of a linked robot."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pliant.core import InputError, require_positive
from pliant.geometry import load_surface
from pliant.robot_files.section import (
    Keys,
    Limit,
    Point,
    Row,
    Rows,
    section_of,
    tables_by_name,
    tagged_section,
)
from pliant.robot_files.surface_file import is_surface_file, read_surface_file
from pliant.swimming import ClosedSurface, EllipsoidShape, Hinge, Link, LinkPoint

Limits = tuple[Limit, Limit]


def ellipsoid_link(
    *,
    semi_axes: Row,
    density: float | None = None,
    mass: float | None = None,
    inertia: Any = None,
    centre_of_mass: Row | None = None,
) -> Link:
    return Link(
        shape=EllipsoidShape(semi_axes=semi_axes),  # type: ignore[arg-type]  # converts it
        density=density,
        mass=mass,
        inertia=inertia,
        centre_of_mass=centre_of_mass,
    )


def surface_link(
    *,
    file: Path,
    scale: float = 1.0,
    repair: bool = False,
    density: float | None = None,
    mass: float | None = None,
    inertia: Any = None,
    centre_of_mass: Row | None = None,
) -> Link:
    """Read a link from a surface file: STL, OBJ, PLY, or that of a saved robot."""
    return Link(
        shape=_read_surface(file, scale, repair),
        density=density,
        mass=mass,
        inertia=inertia,
        centre_of_mass=centre_of_mass,
    )


def _read_surface(file: Path, scale: float, repair: bool) -> ClosedSurface:
    require_positive("The scale", scale, "m per unit of the file")
    if is_surface_file(file):
        return read_surface_file(file, scale)
    surface = load_surface(file, scale=scale, repair=repair)
    return ClosedSurface(points=surface.points, triangles=surface.triangles)


def hinge(
    *,
    parent: str,
    child: str,
    axis: Row,
    point: Row,
    child_point: Row,
    limits: Limits,
    motor: bool = True,
    torque: Limits | None = None,
    stiffness: float = 0.0,
    damping: float = 0.0,
    stop_stiffness: float | None = None,
) -> Hinge:
    """Return a hinge. Without a motor it is passive; a motor without `torque` has no limits."""
    if not motor and torque is not None:
        raise InputError("a hinge without a motor has no torque limits; remove torque, or motor.")
    unlimited = (-float("inf"), float("inf"))
    return Hinge(
        parent=parent,
        child=child,
        axis=axis,
        point=point,
        child_point=child_point,
        limits=limits,
        torque=(unlimited if torque is None else torque) if motor else None,
        stiffness=stiffness,
        damping=damping,
        stop_stiffness=stop_stiffness,
    )


def link_point(*, link: str, point: Row = (0.0, 0.0, 0.0)) -> LinkPoint:
    return LinkPoint(link=link, point=point)


LINKS = {
    "ellipsoid": section_of(ellipsoid_link, inertia=Rows | None),
    "surface": section_of(surface_link, inertia=Rows | None),
}
LINKED_ROBOT: Keys = {  # the fields of LinkedRobot
    "name": (str, "swimmer"),
    "links": (tables_by_name(tagged_section("shape", LINKS)), ...),
    "hinges": (tables_by_name(section_of(hinge)), {}),
    "effectors": (tables_by_name(section_of(link_point)), {}),
    "fluid_density": (float, 1000.0),
    "gravity": (Point, (0.0, 0.0, 0.0)),
}
SOFT_SECTIONS = ("geometry", "material", "supports", "actuators", "surfaces", "loads", "contacts")


def describes_links(table: Mapping[str, Any]) -> bool:
    """Return whether a robot file describes a linked robot. Raises InputError if it describes a
    soft robot too."""
    if not table.keys() & {"links", "hinges"}:
        return False
    soft = [name for name in SOFT_SECTIONS if name in table]
    if soft:
        raise InputError(
            f"the file has links or hinges, and also {', '.join(soft)} of a soft robot; remove one "
            "of the two kinds of sections."
        )
    return True
