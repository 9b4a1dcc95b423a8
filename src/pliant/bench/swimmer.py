"""`pliant bench swimmer`: the added mass of four linked ellipsoids and its derivative, beside
Capytaine in one run, the accuracy of both beside Lamb's integrals, and steps of the swimmer beside
MuJoCo.

The module runs in its own process, so that the threads are set before any library is imported.
Every part of `measure` is a section of the numbers, and `report` shows the sections that it finds.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from scipy.integrate import quad

from pliant.bench.peers.capytaine import added_mass_with_capytaine
from pliant.bench.report import Report
from pliant.bench.swimmer_steps import measure_steps, steps_notes, steps_tables
from pliant.core import Array, MissingExtra
from pliant.swimming import ClosedSurface, EllipsoidShape, Hinge, Link, LinkedRobot, PotentialFlow
from pliant.swimming.link_velocities import link_velocities
from pliant.swimming.placement import Placement
from pliant.zoo.timing import timed

WATER = 1000.0  # [kg/m^3]
POINTS = 353  # of an ellipsoid: 1,412 of the robot [Jia2019]
DIVISIONS = 4  # 320 triangles for an ellipsoid
ANGLES = (0.3, -0.2, 0.4)  # [rad]
REQUIRED_TIME = 150.0  # [ms] for the added mass on two threads
ELLIPSOIDS = {"1 : 1 : 1": (1.0, 1.0, 1.0), "2 : 1 : 0.8": (2.0, 1.0, 0.8)}
LONG_ELLIPSOID = {"4 : 1 : 0.6": (4.0, 1.0, 0.6)}


def measure(quick: bool) -> dict[str, Any]:
    """Return the numbers of every section."""
    return {
        "flow": measure_flow(quick),
        "accuracy": measure_accuracy(quick),
        "steps": measure_steps(quick),
    }


def measure_flow(quick: bool) -> dict[str, Any]:
    """Return the times [ms] of the added mass and of its derivative, and the difference of peers.

    The triangles have the volume of the ellipsoids."""
    shape = EllipsoidShape(semi_axes=np.array([0.2, 0.08, 0.05]))
    robot = make_robot(shape)
    placement = robot.placement(np.array(ANGLES))
    points, flat = POINTS, triangulated(shape)
    smooth = PotentialFlow(shapes=4 * (shape,), fluid_density=WATER, ellipsoid_points=points)
    triangles = PotentialFlow(shapes=4 * (flat,), fluid_density=WATER)
    repeats = 3 if quick else 15
    out: dict[str, Any] = {
        "points": 4 * points,
        "triangles": 4 * len(flat.triangles),
        "added mass": times_by_threads(lambda: smooth.solve(placement), repeats),
        "with derivative": times_by_threads(
            lambda: smooth.solve(placement, derivative=True), repeats
        ),
        "added mass of triangles": times_by_threads(lambda: triangles.solve(placement), repeats),
    }
    exact = smooth.solve(placement).added_mass
    out["difference of triangles"] = _difference(triangles.solve(placement).added_mass, exact)
    try:
        run = added_mass_with_capytaine(*_placed_triangles(flat, placement), WATER)
        out["capytaine"] = timed(run, repeats)
        out["difference of capytaine"] = _difference(run(), exact)
    except MissingExtra as error:
        out["missing"] = str(error)
    return out


def make_robot(shape: EllipsoidShape) -> LinkedRobot:
    """Return four equal ellipsoids along x with hinges about z in gaps of 4 cm."""
    reach = shape.semi_axes[0] + 0.02
    hinges = {
        f"hinge {k}": Hinge(
            parent=f"link {k}",
            child=f"link {k + 1}",
            axis=(0.0, 0.0, 1.0),
            point=(reach, 0.0, 0.0),
            child_point=(-reach, 0.0, 0.0),
            limits=(-0.5, 0.5),
            torque=(-1.0, 1.0),
        )
        for k in range(3)
    }
    links = {f"link {k}": Link(shape=shape, density=WATER) for k in range(4)}
    return LinkedRobot(links=links, hinges=hinges, fluid_density=WATER)


def triangulated(shape: EllipsoidShape) -> ClosedSurface:
    """Return triangles with the volume of an ellipsoid."""
    surface = shape.surface(DIVISIONS)
    scale = (shape.volume / surface.volume()) ** (1.0 / 3.0)
    return ClosedSurface(points=scale * surface.points, triangles=surface.triangles)


def _placed_triangles(shape: ClosedSurface, placement: Placement) -> tuple[Array, Array]:
    """Return the corners (k, 3, 3) of the triangles of all links, and the velocities (m, k, 3) of
    their centroids."""
    corners, velocities = [], []
    for R, c, T in zip(
        placement.rotations, placement.centres, link_velocities(placement), strict=True
    ):
        local = shape.corners.mean(axis=1)
        velocities.append([(T[:3, j] + np.cross(T[3:, j], local)) @ R.T for j in range(T.shape[1])])
        corners.append(shape.corners @ R.T + c)
    return np.concatenate(corners), np.concatenate(velocities, axis=1)


def _difference(mass: Array, exact: Array) -> float:
    """Return the largest difference of an entry over the root of its two diagonal entries."""
    size = np.sqrt(np.diag(exact))
    return float(np.abs((mass - exact) / np.outer(size, size)).max())


def times_by_threads(work: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Return the median time [ms] with one thread and with two."""
    out = {}
    for threads in (1, 2):
        numba.set_num_threads(threads)
        out[str(threads)] = timed(work, repeats)
    return out


def measure_accuracy(quick: bool) -> list[dict[str, Any]]:
    """Return the largest errors of the added masses of ellipsoids, relative to Lamb's."""
    return [
        {"axes": name, **_errors(axes)}
        for name, axes in (ELLIPSOIDS if quick else ELLIPSOIDS | LONG_ELLIPSOID).items()
    ]


def _errors(axes: tuple[float, float, float]) -> dict[str, Any]:
    shape, placement = EllipsoidShape(semi_axes=np.array(axes)), Placement.single()
    flat, exact = triangulated(shape), WATER * shape.volume * lamb_added_masses(axes)
    masses = {
        "points": PotentialFlow(shapes=(shape,), fluid_density=WATER, ellipsoid_points=POINTS)
        .solve(placement)
        .added_mass,
        "triangles": PotentialFlow(shapes=(flat,), fluid_density=WATER).solve(placement).added_mass,
    }
    try:
        placed = _placed_triangles(flat, placement)
        masses["capytaine"] = added_mass_with_capytaine(*placed, WATER)()
    except MissingExtra:  # measure_flow tells
        pass
    turning = exact[3:] > 0.0  # a sphere sets nothing in motion
    return {
        name: {
            "translation": float(np.abs(np.diag(mass)[:3] / exact[:3] - 1.0).max()),
            "rotation": float(
                np.abs(np.diag(mass)[3:][turning] / exact[3:][turning] - 1.0).max(initial=0.0)
            ),
        }
        for name, mass in masses.items()
    }


def lamb_added_masses(axes: tuple[float, float, float]) -> Array:
    """Return the added masses (3,) and moments of inertia (3,) over the displaced mass, by Lamb's
    integrals (Hydrodynamics, 114)."""
    squares = np.array(axes) ** 2

    def integral(i: int) -> float:
        def integrand(s: float) -> float:  # the variable of Lamb is s / (1 - s)
            t = s / (1.0 - s)
            return 1.0 / ((squares[i] + t) * np.sqrt(np.prod(squares + t)) * (1.0 - s) ** 2)

        return float(np.prod(axes)) * quad(integrand, 0.0, 1.0, epsabs=0.0, epsrel=1e-9)[0]

    alpha = np.array([integral(i) for i in range(3)])
    moments = np.zeros(3)
    for i, (j, k) in enumerate(((1, 2), (2, 0), (0, 1))):
        change, total = squares[j] - squares[k], squares[j] + squares[k]
        if change:
            moments[i] = 0.2 * change**2 * (alpha[k] - alpha[j])
            moments[i] /= 2.0 * change + total * (alpha[j] - alpha[k])
    return np.concatenate([alpha / (2.0 - alpha), moments])


def report(numbers: dict[str, Any]) -> Report:
    """Return the tables of the sections that were measured."""
    tables, notes = [], []
    if "flow" in numbers:
        tables.append(_flow_table(numbers["flow"]))
        notes += _flow_notes(numbers["flow"])
    if "accuracy" in numbers:
        tables.append(_accuracy_table(numbers["accuracy"]))
        notes.append(
            "Errors are relative to Lamb's integrals, the largest of three directions. The "
            f"triangles ({20 * DIVISIONS**2} for an ellipsoid) have the volume of the ellipsoid."
        )
    if "steps" in numbers:
        tables += steps_tables(numbers["steps"])
        notes += steps_notes(numbers["steps"])
    return Report(tables=tables, notes=notes, numbers=numbers)


def _flow_table(flow: dict[str, Any]) -> tuple[str, list[str], list[list[str]]]:
    points, triangles = f"{flow['points']:,} points", f"{flow['triangles']:,} triangles"
    rows = [
        ["Pliant", points, "added mass", *_two_times(flow["added mass"]), ""],
        ["Pliant", points, "with derivative", *_two_times(flow["with derivative"]), ""],
        [
            "Pliant",
            triangles,
            "added mass",
            *_two_times(flow["added mass of triangles"]),
            f"{flow['difference of triangles']:.1e}",
        ],
    ]
    if "capytaine" in flow:
        difference = f"{flow['difference of capytaine']:.1e}"
        time = f"{flow['capytaine']:.0f}"
        rows.append(["Capytaine", triangles, "added mass", time, "", difference])
    columns = ["library", "surface", "work", "1 thread [ms]", "2 threads [ms]", "difference"]
    return "Four ellipsoids with three hinges, nine unit velocities", columns, rows


def _two_times(times: dict[str, float]) -> list[str]:
    return [f"{times[threads]:.0f}" for threads in ("1", "2")]


def _flow_notes(flow: dict[str, Any]) -> list[str]:
    notes = [flow["missing"]] if "missing" in flow else []
    extra = flow["with derivative"]["1"] / flow["added mass"]["1"] - 1.0
    notes.append(
        f"The added mass at {flow['points']:,} points takes {flow['added mass']['2']:.0f} ms on "
        f"two threads (required: {REQUIRED_TIME:.0f} ms). Its derivative by three joint angles "
        f"takes {extra:.0%} more on one thread."
    )
    if "capytaine" in flow:
        speedup = flow["capytaine"] / flow["added mass of triangles"]["1"]
        notes.append(
            f"On the same triangles and one thread, Pliant takes 1/{speedup:.1f} of Capytaine's "
            "time. It reuses the blocks of each link. Capytaine uses its direct method, which is "
            "the more accurate one here; it has no derivative."
        )
    notes.append(
        "Medians of one run. Difference: the largest difference of an entry of the added mass "
        f"from that of the {flow['points']:,} points, over the root of its two diagonal entries."
    )
    return notes


def _accuracy_table(rows: list[dict[str, Any]]) -> tuple[str, list[str], list[list[str]]]:
    methods = ("points", "triangles", "capytaine")
    columns = ["semi-axes"]
    columns += [f"{name}, {kind} [%]" for name in methods for kind in ("translation", "rotation")]

    def cells(row: dict[str, Any]) -> list[str]:
        found = [row.get(name, {}) for name in methods]
        return [
            f"{100.0 * one[kind]:.3f}" if one.get(kind) else ""
            for one in found
            for kind in ("translation", "rotation")
        ]

    return "Errors of the added mass", columns, [[row["axes"], *cells(row)] for row in rows]


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1:] == ["quick"])))
