"""Which sections a robot file has and what each becomes."""

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
from pliant.actuators.fibres import hoops, rays
from pliant.contact import Contact, capsule, plane, sphere, terrain
from pliant.core import InputError, nearest
from pliant.geometry import (
    Bar,
    Box,
    Chambered,
    Cylinder,
    Disc,
    Domain,
    Ellipsoid,
    Mesh,
    Polygon,
    Rectangle,
    Ring,
    Rods,
    Round,
    Shape,
    Strip,
    Surface,
    Tube,
    Union,
    Vessel,
    fill,
    load_mesh,
    load_silhouette,
    load_surface,
    name_cavities,
)
from pliant.geometry.repair import MERGE
from pliant.materials import Material
from pliant.robot import Damping, Effector, MomentLoad, Patch, PointLoad, Support, SurfaceLoad
from pliant.robot_files.section import (
    Keys,
    Limit,
    Point,
    Row,
    Rows,
    Table,
    listed,
    made,
    named,
    one_of,
    read_by,
    wrapped,
)
from pliant.robot_files.task import Keyframes, constant


@dataclass(frozen=True, kw_only=True, eq=False)
class Geometry:
    """The share of a Robot that describes its matter in space."""

    shape: Shape | Mesh | Rods
    cell: float | None = None
    divisions: tuple[int, ...] | None = None
    order: int = 2
    thickness: float = 1.0
    filled: tuple[Surface, float] | None = None  # surface and cell [m] of the mesh, if it fills one


def from_mesh(
    *,
    mesh: Path,
    scale: float = 1.0,
    merge: bool = False,
    names: dict[str, str] | None = None,
    order: int = 2,
    thickness: float = 1.0,
) -> Geometry:
    return Geometry(
        shape=name_cavities(load_mesh(mesh, scale=scale, merge=merge, names=names)),
        order=order,
        thickness=thickness,
    )


def from_surface(
    *,
    surface: Path,
    cell: float,
    scale: float = 1.0,
    merge: float = MERGE,
    repair: bool = False,
    method: str = "stuffing",
    order: int = 2,
) -> Geometry:
    loaded = load_surface(surface, scale=scale, merge=merge, repair=repair)
    mesh = name_cavities(fill(loaded, cell, method=method))
    return Geometry(shape=mesh, order=order, filled=(loaded, cell))


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
    """`depth` makes the figure solid, `thickness` is that of a plane body."""
    mesh = load_silhouette(silhouette, height=height, cell=cell, thickness=depth, regions=regions)
    return Geometry(shape=name_cavities(mesh), order=order, thickness=thickness)


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
    """`divide` cuts each rod into as many equal ones."""
    given = Rods(
        points=points, rods=rods, section=section, regions=regions or {}, parts=parts or {}, up=up
    )
    return Geometry(shape=given.refine(divide))


def from_fibres(*, region: str, stiffness: float, direction: str = "hoops") -> Fibres:
    """`direction` is "hoops" around the z axis or "rays" away from it."""
    ways = {"hoops": hoops, "rays": rays}
    if direction not in ways:
        raise InputError(
            f"there is no direction '{direction}' for fibres; {nearest(direction, ways)}"
        )
    return Fibres(region=region, stiffness=stiffness, direction=ways[direction])


def from_arm(*, file: Path, side: str | None = None, start: Row | None = None) -> Arm:
    return load_arm(file, side=side, start=start)


SHAPES = {
    cls.__name__.lower(): cls
    for cls in (
        Box,
        Cylinder,
        Tube,
        Vessel,
        Chambered,
        Ellipsoid,
        Strip,
        Rectangle,
        Disc,
        Ring,
        Polygon,
    )
}
SOLID = ("thickness",)  # a solid has no out-of-plane thickness to choose
SHAPE = one_of(
    "shape",
    {
        name: wrapped(cls, Geometry, "shape", leave=("filled", *(SOLID if cls.dim == 3 else ())))
        for name, cls in SHAPES.items()
    },
)
PART = one_of("shape", {name: made(cls) for name, cls in SHAPES.items()})
SECTION = one_of("type", {"round": made(Round), "bar": made(Bar)})


def pick_section(table: Mapping[str, Any]) -> Any:
    """One section, or one for each part: then every value is a table."""
    return (
        named(SECTION) if any(isinstance(value, Mapping) for value in table.values()) else SECTION
    )


Members = dict[str, tuple[int, ...]]
SOURCES = {
    "rods": made(
        from_rods,
        rods=tuple[tuple[int, int], ...],
        points=Rows,
        section=read_by(pick_section),
        regions=Members,
        parts=Members,
    ),
    "shape": SHAPE,
    "mesh": made(from_mesh),
    "surface": made(from_surface),
    "silhouette": made(from_silhouette),
    "parts": made(from_parts, parts=named(PART)),
}
Sides = tuple[tuple[Limit, ...], tuple[Limit, ...]]
FRAMES = {
    "moving": made(MovingFrame, origin=Point, limits=Sides | None, start=Row | None),
    "arm": made(from_arm, start=Row | None),
}
FRAME = one_of("type", FRAMES)
ACTUATORS = {
    "cable": made(Cable, points=Rows),
    "thrust": made(Thrust),
    "gripper": made(Gripper, frame=FRAME),
    "tether": made(Tether, frame=FRAME),
    "muscle": made(Muscle, region=str),
    "fluidic": made(Fluidic, region=str),
    "pressure": made(Pressure),
    "hydraulic": made(Hydraulic),
    "fibres": made(from_fibres),
    "servo": made(Servo),
}
OBSTACLES = {
    obstacle.__name__: wrapped(obstacle, Contact, "obstacle")
    for obstacle in (plane, sphere, capsule)
}
OBSTACLES["terrain"] = wrapped(terrain, Contact, "obstacle", heights=Table)
MATERIAL = made(Material)
KEYFRAMES = made(Keyframes, times=Row, values=Rows)


def constant_or_keyframes(kind: Any) -> Any:
    """The type of a value that is constant, or a table of keyframes over time."""

    def read(given: Any, info: ValidationInfo) -> Any:
        strict = None if isinstance(given, dict) else ConfigDict(strict=True, allow_inf_nan=False)
        chosen = KEYFRAMES if isinstance(given, dict) else kind
        return TypeAdapter(chosen, config=strict).validate_python(given, context=info.context)

    return Annotated[Any, PlainValidator(read)]


POINT_LOAD = made(PointLoad, force=constant_or_keyframes(Point))
SURFACE_LOAD = made(SurfaceLoad, traction=constant_or_keyframes(Point))
MOMENT_LOAD = made(MomentLoad, moment=constant_or_keyframes(float | Row))
SUPPORT = made(
    Support,
    motion=KEYFRAMES | None,
    box=tuple[Row, Row] | None,
    nodes=tuple[int, ...] | None,
)


def pick_source(table: Mapping[str, Any]) -> Any:
    given = (
        ["rods"] if "rods" in table else [key for key in SOURCES if key in table]
    )  # rods have parts of their own
    if len(given) != 1:
        raise InputError(
            f"the geometry needs one of {', '.join(SOURCES)}, and has "
            f"{' and '.join(given) or 'none'}; keep one."
        )
    return SOURCES[given[0]]


def pick_material(table: Mapping[str, Any]) -> Any:
    """One material, or one for each region: then every value is a table."""
    regions = any(isinstance(value, Mapping) for value in table.values())
    return named(MATERIAL) if regions else MATERIAL


def pick_load(table: Mapping[str, Any]) -> Any:
    if "moment" in table:
        return MOMENT_LOAD
    return SURFACE_LOAD if "surface" in table else POINT_LOAD


def read_controls(given: Any, info: ValidationInfo) -> Keyframes:
    """A list is constant in time; a table holds keyframes."""
    if isinstance(given, dict):
        return TypeAdapter(KEYFRAMES).validate_python(given, context=info.context)
    row = TypeAdapter(Row, config=ConfigDict(strict=True)).validate_python(given)
    return constant(*row)


CONTROLS = Annotated[Any, PlainValidator(read_controls)]
ROBOT: Keys = {  # the keys of Robot, with its matter under [geometry]
    "name": (str, "robot"),
    "geometry": (read_by(pick_source), ...),
    "material": (read_by(pick_material), ...),
    "supports": (listed(SUPPORT), ()),
    "actuators": (named(one_of("type", ACTUATORS)), {}),
    "effectors": (named(made(Effector)), {}),
    "surfaces": (named(made(Patch)), {}),
    "loads": (listed(read_by(pick_load)), ()),
    "contacts": (listed(one_of("type", OBSTACLES)), ()),
    "gravity": (Point | None, None),
    "damping": (made(Damping), Damping()),
    "snap": (float | None, None),
}
