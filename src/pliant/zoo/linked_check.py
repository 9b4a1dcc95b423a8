"""Facts and warnings about a linked robot: masses, buoyancy, gaps and added mass."""

import numpy as np

from pliant.core import Array
from pliant.materials import DENSITY
from pliant.swimming import Link, LinkedRobot, PotentialFlow
from pliant.swimming.link_gaps import smallest_gap
from pliant.swimming.link_shapes import ELLIPSOID_POINTS

NARROW_GAP = 0.5  # of the spacing of the surface points; below it the added mass is inaccurate
Fact = tuple[str, str]


def linked_facts(
    robot: LinkedRobot, points: int = ELLIPSOID_POINTS
) -> tuple[list[Fact], list[str]]:
    """Return the facts of a linked robot as (name, text), and warnings. `points` is the number of
    surface points of each ellipsoid."""
    rest = np.zeros(robot.n_angles)
    placed = robot.placement(rest)
    facts = [(f"link {name}", _link_text(robot, link)) for name, link in robot.links.items()]
    facts += [
        ("mass", f"{robot.mass:.4g} kg, displaces {_displaced(robot):.4g} kg of fluid"),
        ("buoyancy", _buoyancy_text(robot)),
        ("centre of mass", _coordinates(robot.centre_of_mass(placed))),
        ("centre of buoyancy", _coordinates(robot.centre_of_volume(placed))),
    ]
    facts += [
        (
            f"hinge {name}",
            f"{hinge.limits[0]:.4g} to {hinge.limits[1]:.4g} rad, {_motor(hinge.torque)}",
        )
        for name, hinge in robot.hinges.items()
    ]
    gap_facts, warnings = _gap_facts(robot, points)
    facts += gap_facts + _added_mass_facts(robot, rest, points)
    facts += [
        (f"effector {name}", f"on {point.link}, at {_coordinates(point.point)}")  # type: ignore[arg-type]
        for name, point in robot.effectors.items()
    ]
    return facts, warnings + _density_warnings(robot)


def _link_text(robot: LinkedRobot, link: Link) -> str:
    density = float(link.mass) / link.shape.volume  # type: ignore[arg-type]
    return f"{1e3 * link.shape.volume:.4g} l, {link.mass:.4g} kg, {density:.4g} kg/m^3"


def _motor(torque: tuple[float, float] | None) -> str:
    return "no motor" if torque is None else f"{torque[0]:.4g} to {torque[1]:.4g} N m"


def _displaced(robot: LinkedRobot) -> float:
    """Return the mass [kg] of the displaced fluid."""
    return robot.fluid_density * sum(link.shape.volume for link in robot.links.values())


def _buoyancy_text(robot: LinkedRobot) -> str:
    if not robot.fluid_density:
        return "none, without a fluid"
    excess = robot.mass / _displaced(robot) - 1.0
    if abs(excess) < 1e-6:
        return "neutral"
    return f"{abs(excess):.3%} {'heavier' if excess > 0.0 else 'lighter'} than the fluid"


def _coordinates(point: Array) -> str:
    return ", ".join(f"{x:.4g}" for x in point + 0.0) + " m"


def _gap_facts(robot: LinkedRobot, points: int) -> tuple[list[Fact], list[str]]:
    """Return the smallest gap within the joint limits, and a warning if it is too narrow for the
    potential flow."""
    gap = smallest_gap(robot, margin=0.0)
    if gap is None:
        return [], []
    first, second = gap.links
    if gap.distance == 0.0:
        text = f"'{first}' and '{second}' touch within the joint limits"
        return [("smallest gap", "0 m")], [
            f"The links {text}, so they cannot be in a fluid. Leave a larger gap at their hinge, "
            "or reduce the joint limits."
        ]
    facts = [
        (
            "smallest gap",
            f"{gap.distance:.3g} m of '{first}' and '{second}' at {_pose(robot, gap.angles)}",
        )
    ]
    spacing = max(_spacing(robot.links[name], points) for name in gap.links)
    if not robot.fluid_density or gap.distance >= NARROW_GAP * spacing:
        return facts, []
    return facts, [
        f"The gap of '{first}' and '{second}' is {gap.distance:.3g} m, but their surface points "
        f"are {spacing:.3g} m apart, so the added mass is inaccurate there. Leave a larger gap, or "
        "use more points."
    ]


def _pose(robot: LinkedRobot, angles: Array) -> str:
    return ", ".join(f"{name} = {a:.3g}" for name, a in zip(robot.hinges, angles, strict=True))


def _spacing(link: Link, points: int) -> float:
    """Return the mean distance [m] between the points on the surface of a link."""
    areas = np.linalg.norm(link.shape.quadrature(points)[1], axis=1)
    return float(np.sqrt(areas.mean()))


def _added_mass_facts(robot: LinkedRobot, angles: Array, points: int) -> list[Fact]:
    """Return the added mass of the robot at angle zero, along and about the axes of the root."""
    if not robot.fluid_density:
        return []
    shapes = [link.shape for link in robot.links.values()]
    flow = PotentialFlow(shapes=shapes, fluid_density=robot.fluid_density, ellipsoid_points=points)
    diagonal = np.diag(flow.solve(robot.placement(angles)).added_mass)
    text = lambda values: ", ".join(f"{value:.4g}" for value in values)
    return [
        ("added mass at rest", f"{text(diagonal[:3])} kg along x, y, z"),
        ("added inertia at rest", f"{text(diagonal[3:6])} kg m^2 about x, y, z of the root"),
    ]


def _density_warnings(robot: LinkedRobot) -> list[str]:
    """Return a warning for each link with an implausible density."""
    found = {name: float(link.mass) / link.shape.volume for name, link in robot.links.items()}  # type: ignore[arg-type]
    return [
        f"links.{name}: {message}"
        for name, density in found.items()
        for message in DENSITY.warnings(density)
    ]
