"""The sections of a robot file and the classes that they become."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, PlainValidator, TypeAdapter, ValidationInfo

from pliant.actuators import (
    Arm,
    Cable,
    Fibres,
    Fluidic,
    Gripper,
    Hydraulic,
    MovingFrame,
    Muscle,
    Pressure,
    Servo,
    Tether,
    Thrust,
    load_arm,
)
from pliant.actuators.fibres import CircumferentialDirection, circumferential, radial
from pliant.bodies import PointMass
from pliant.contact import Contact, capsule, plane, sphere, terrain
from pliant.core import InputError, nearest
from pliant.geometry import (
    Annulus,
    Box,
    ChamberedCylinder,
    CircularSection,
    ClosedCylinder,
    Cylinder,
    Disc,
    Domain,
    Ellipsoid,
    Mesh,
    Polygon,
    Rectangle,
    RectangularSection,
    Rods,
    Shape,
    Strip,
    Surface,
    Tube,
    Union,
    fill,
    load_mesh,
    load_silhouette,
    load_surface,
    name_cavities_if_present,
)
from pliant.geometry.repair import MERGE_FRACTION
from pliant.materials import Material
from pliant.robot import Damping, Effector, MomentLoad, Patch, PointLoad, Support, SurfaceLoad
from pliant.robot_files.mesh_file import is_mesh_file, read_mesh_file
from pliant.robot_files.section import (
    Keys,
    Limit,
    Point,
    Row,
    Rows,
    Table,
    chosen_section,
    list_of,
    merged_section,
    preview,
    section_of,
    tables_by_name,
    tagged_section,
)
from pliant.robot_files.task import Keyframes, constant


@dataclass(frozen=True, kw_only=True, eq=False)
class Geometry:
    """The fields of a Robot that come from the section [geometry]."""

    shape: Shape | Mesh | Rods | PointMass
    cell: float | None = None
    divisions: tuple[int, ...] | None = None
    order: int = 2
    thickness: float = 1.0
    fill_source: tuple[Surface, float] | None = (
        None  # surface and cell [m] of the mesh, if it fills one
    )


def from_mesh(
    *,
    mesh: Path,
    scale: float = 1.0,
    merge: bool = False,
    names: dict[str, str] | None = None,
    order: int = 2,
    thickness: float = 1.0,
) -> Geometry:
    """Read a mesh file. A mesh file of a saved robot uses only `order` and `thickness`."""
    if is_mesh_file(mesh):
        return Geometry(shape=read_mesh_file(mesh), order=order, thickness=thickness)
    return Geometry(
        shape=name_cavities_if_present(load_mesh(mesh, scale=scale, merge=merge, names=names)),
        order=order,
        thickness=thickness,
    )


def from_surface(
    *,
    surface: Path,
    cell: float,
    scale: float = 1.0,
    merge: float = MERGE_FRACTION,
    repair: bool = False,
    method: str = "stuffing",
    order: int = 2,
) -> Geometry:
    loaded = load_surface(surface, scale=scale, merge=merge, repair=repair)
    mesh = name_cavities_if_present(fill(loaded, cell, method=method))
    return Geometry(shape=mesh, order=order, fill_source=(loaded, cell))


def from_silhouette(
    *,
    silhouette: Path,
    height: float,
    cell: float,
    depth: float | None = None,
    regions: dict[str, str] | None = None,
    order: int = 2,
    thickness: float = 1.0,
) -> Geometry:
    """Mesh a silhouette. With `depth` [m] it is extruded to a solid; `thickness` [m] is for plane
    bodies."""
    mesh = load_silhouette(silhouette, height=height, cell=cell, thickness=depth, regions=regions)
    return Geometry(shape=name_cavities_if_present(mesh), order=order, thickness=thickness)


def from_parts(
    *,
    parts: dict[str, Domain],
    cell: float | None = None,
    divisions: tuple[int, ...] | None = None,
    order: int = 2,
    thickness: float = 1.0,
) -> Geometry:
    return Geometry(
        shape=Union(parts=parts), cell=cell, divisions=divisions, order=order, thickness=thickness
    )


def from_rods(
    *,
    rods: Any,
    points: Any,
    section: Any,
    regions: Any = None,
    parts: Any = None,
    up: Row | None = None,
    divide: int = 1,
) -> Geometry:
    """Create rods. Each is divided into `divide` equal parts."""
    given = Rods(
        points=points, rods=rods, section=section, regions=regions or {}, parts=parts or {}, up=up
    )
    return Geometry(shape=given.refine(divide))


def fibre_direction(value: Any, info: ValidationInfo) -> Any:
    """Return the fibre direction by name, or a circumferential direction around the axis of a
    table."""
    if isinstance(value, dict):
        return TypeAdapter(section_of(CircumferentialDirection)).validate_python(
            value, context=info.context
        )
    directions = {"circumferential": circumferential, "radial": radial}
    if value not in list(directions):
        raise InputError(
            f"there is no direction {preview(value)} for fibres; {nearest(value, directions)}"
        )
    return directions[value]


def from_point_masses(*, point_masses: Any, mass_each: float = 1.0) -> Geometry:
    return Geometry(shape=PointMass(points=point_masses, mass_each=mass_each))


def from_arm(*, file: Path, side: str | None = None, start: Row | None = None) -> Arm:
    return load_arm(file, side=side, start=start)


SHAPES: dict[str, Any] = {
    "box": Box,
    "cylinder": Cylinder,
    "tube": Tube,
    "closed_cylinder": ClosedCylinder,
    "chambered_cylinder": ChamberedCylinder,
    "ellipsoid": Ellipsoid,
    "strip": Strip,
    "rectangle": Rectangle,
    "disc": Disc,
    "annulus": Annulus,
    "polygon": Polygon,
}
SECTIONS: dict[str, Any] = {"circular": CircularSection, "rectangular": RectangularSection}
SOLID = ("thickness",)  # a solid has no out-of-plane thickness
SHAPE = tagged_section(
    "shape",
    {
        name: merged_section(
            cls, Geometry, "shape", leave=("fill_source", *(SOLID if cls.dim == 3 else ()))
        )
        for name, cls in SHAPES.items()
    },
)
SIMPLE_PART = tagged_section("shape", {name: section_of(cls) for name, cls in SHAPES.items()})
SECTION = tagged_section("type", {name: section_of(cls) for name, cls in SECTIONS.items()})


def nested_parts(*, parts: dict[str, Domain]) -> Union:
    return Union(parts=parts)


def pick_part(table: Mapping[str, Any]) -> Any:
    """Return the type of a shape, or of a table `parts` of shapes."""
    return section_of(nested_parts, parts=tables_by_name(PART)) if "parts" in table else SIMPLE_PART


PART = chosen_section(pick_part)


def region_or_shape(value: Any, info: ValidationInfo) -> Any:
    """Return the name of a region, or a shape in rest coordinates."""
    if isinstance(value, dict):
        return TypeAdapter(PART).validate_python(value, context=info.context)
    return TypeAdapter(str, config=ConfigDict(strict=True)).validate_python(value)


REGION = Annotated[Any, PlainValidator(region_or_shape)]
DIRECTION = Annotated[Any, PlainValidator(fibre_direction)]


def pick_section(table: Mapping[str, Any]) -> Any:
    """Return the type of one cross-section, or of one for each part if the values are tables."""
    return (
        tables_by_name(SECTION)
        if any(isinstance(value, Mapping) for value in table.values())
        else SECTION
    )


Members = dict[str, tuple[int, ...]]
SOURCES = {
    "rods": section_of(
        from_rods,
        rods=tuple[tuple[int, int], ...],
        points=Rows,
        section=chosen_section(pick_section),
        regions=Members,
        parts=Members,
    ),
    "shape": SHAPE,
    "mesh": section_of(from_mesh),
    "surface": section_of(from_surface),
    "silhouette": section_of(from_silhouette),
    "parts": section_of(from_parts, parts=tables_by_name(PART)),
    "point_masses": section_of(from_point_masses, point_masses=Rows),
}
Sides = tuple[tuple[Limit, ...], tuple[Limit, ...]]
FRAMES = {
    "moving": section_of(MovingFrame, origin=Point, limits=Sides | None, start=Row | None),
    "arm": section_of(from_arm, start=Row | None),
}
FRAME = tagged_section("type", FRAMES)
ACTUATOR_CLASSES: dict[str, Any] = {
    "cable": Cable,
    "thrust": Thrust,
    "gripper": Gripper,
    "tether": Tether,
    "muscle": Muscle,
    "fluidic": Fluidic,
    "pressure": Pressure,
    "hydraulic": Hydraulic,
    "fibres": Fibres,
    "servo": Servo,
}
ACTUATOR_TYPES: dict[str, dict[str, Any]] = {  # keys whose type in the file is not the signature's
    "cable": {"points": Rows},
    "gripper": {"frame": FRAME},
    "tether": {"frame": FRAME},
    "muscle": {"region": REGION},
    "fluidic": {"region": REGION},
    "fibres": {"region": REGION, "direction": DIRECTION},
}
ACTUATORS = {
    name: section_of(cls, **ACTUATOR_TYPES.get(name, {})) for name, cls in ACTUATOR_CLASSES.items()
}
OBSTACLES = {
    obstacle.__name__: merged_section(obstacle, Contact, "obstacle")
    for obstacle in (plane, sphere, capsule)
}
OBSTACLES["terrain"] = merged_section(terrain, Contact, "obstacle", heights=Table)
MATERIAL = section_of(Material)
KEYFRAMES = section_of(Keyframes, times=Row, values=Rows)


def constant_or_keyframes(kind: Any) -> Any:
    """Return the type of a value that is constant, or a table of keyframes over time."""

    def read(given: Any, info: ValidationInfo) -> Any:
        strict = None if isinstance(given, dict) else ConfigDict(strict=True, allow_inf_nan=False)
        chosen = KEYFRAMES if isinstance(given, dict) else kind
        return TypeAdapter(chosen, config=strict).validate_python(given, context=info.context)

    return Annotated[Any, PlainValidator(read)]


POINT_LOAD = section_of(PointLoad, force=constant_or_keyframes(Point))
SURFACE_LOAD = section_of(SurfaceLoad, traction=constant_or_keyframes(Point))
MOMENT_LOAD = section_of(MomentLoad, moment=constant_or_keyframes(float | Row))
SUPPORT = section_of(
    Support,
    motion=KEYFRAMES | None,
    box=tuple[Row, Row] | None,
    nodes=tuple[int, ...] | None,
)


def pick_source(table: Mapping[str, Any]) -> Any:
    # rods have a key `parts` too
    given = ["rods"] if "rods" in table else [key for key in SOURCES if key in table]
    if len(given) != 1:
        raise InputError(
            f"the geometry needs one of {', '.join(SOURCES)}, and has "
            f"{' and '.join(given) or 'none'}; give exactly one."
        )
    return SOURCES[given[0]]


def pick_material(table: Mapping[str, Any]) -> Any:
    """Return the type of one material, or of one for each region if the values are tables."""
    regions = any(isinstance(value, Mapping) for value in table.values())
    return tables_by_name(MATERIAL) if regions else MATERIAL


def pick_load(table: Mapping[str, Any]) -> Any:
    if "moment" in table:
        return MOMENT_LOAD
    return SURFACE_LOAD if "surface" in table else POINT_LOAD


def read_controls(given: Any, info: ValidationInfo) -> Keyframes:
    """Return keyframes from a table, or constant controls from a list."""
    if isinstance(given, dict):
        return TypeAdapter(KEYFRAMES).validate_python(given, context=info.context)
    row = TypeAdapter(Row, config=ConfigDict(strict=True)).validate_python(given)
    return constant(*row)


CONTROLS = Annotated[Any, PlainValidator(read_controls)]
ROBOT: Keys = {  # the fields of Robot, with shape and mesh under [geometry]
    "name": (str, "robot"),
    "geometry": (chosen_section(pick_source), ...),
    "material": (chosen_section(pick_material), {}),
    "supports": (list_of(SUPPORT), ()),
    "actuators": (tables_by_name(tagged_section("type", ACTUATORS)), {}),
    "effectors": (tables_by_name(section_of(Effector)), {}),
    "surfaces": (tables_by_name(section_of(Patch)), {}),
    "loads": (list_of(chosen_section(pick_load)), ()),
    "contacts": (list_of(tagged_section("type", OBSTACLES)), ()),
    "gravity": (Point | None, None),
    "damping": (section_of(Damping), Damping()),
    "snap": (float | None, None),
}
