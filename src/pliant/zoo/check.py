"""Is a robot sound? What a careful engineer would look at before trusting it."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pliant.actuators import AttachedCable, AttachedPressure, Hydraulic
from pliant.bodies import Beams, Solid
from pliant.core import StepError
from pliant.geometry import Mesh, compare_fill, mesh_quality
from pliant.materials import DENSITY
from pliant.robot import Robot
from pliant.robot_files import Task, load_task
from pliant.zoo.order_warnings import order_warnings, overlap_warnings


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What was found, as (what, text) pairs, and what is doubtful."""

    facts: list[tuple[str, str]]
    warnings: list[str]


def check(path: Path) -> Findings:
    """Load a robot file, look at its mesh, units, supports and actuators, and take one step of
    it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task = load_task(path)
        model = task.model()
        body = task.robot.body()
        facts = [
            ("robot", task.robot.name),
            ("unknowns", str(model.space.n_dofs)),
            ("controls", str(model.n_controls)),
        ]
        warnings_found: list[str] = []
        if isinstance(body, Solid):
            more, warnings_found = _matter(body)
            facts += more + _filled_surface(task)
            warnings_found += [*order_warnings(body), *overlap_warnings(body)]
        if isinstance(body, Beams):
            facts += _beams(body)
        facts += _attachments(model)
        warnings_found += _heavy_liquids(task.robot)
        step = model.step(model.initial_state(), task.control(0))
    if not step.status:
        raise StepError(
            " ".join([f"The first step of {path} failed: {step.status.text}", *warnings_found])
        )
    facts.append(("first step", f"converged in {step.status.iterations} Newton iterations"))
    said = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    fresh = [
        text for text in said if not any(warning in text for warning in warnings_found)
    ]  # the robot repeats the mesh's warnings in its own name
    return Findings(facts=facts, warnings=list(dict.fromkeys([*warnings_found, *fresh])))


def _matter(body: Solid) -> tuple[list[tuple[str, str]], list[str]]:
    q = mesh_quality(body.mesh)
    unit = "m^3" if body.dim == 3 else "m^2"
    fields = body.fields
    speed = np.sqrt((fields.moduli[:, 1] + 2.0 * fields.moduli[:, 0]) / fields.density)
    edge = (np.abs(body.mesh.volumes()) * (6.0 if body.dim == 3 else 2.0)) ** (1.0 / body.dim)
    facts = [
        (
            "mesh",
            f"{body.mesh.n_points} points, {body.mesh.n_cells} cells of "
            f"{body.mesh.cells.shape[1]} nodes",
        ),
        ("size", " x ".join(f"{s:.4g}" for s in np.ptp(body.mesh.points, axis=0)) + " m"),
        ("volume", f"{body.mesh.volumes().sum():.4g} {unit}"),
        (
            "mass",
            f"{body.mass_vjp(np.ones(body.rest.size), np.ones(body.rest.size)) @ fields.density / body.dim:.4g} kg",  # noqa: E501
        ),
        ("smallest angle", f"{q.smallest_angle:.1f} degrees (cell {q.smallest_angle_cell})"),
        ("surface", "closed" if q.closed else "OPEN"),
        (
            "stable step",
            "any for the implicit rules; an explicit one would need "
            f"{float((edge / speed).min()):.2g} s",
        ),
    ]
    return facts, q.warnings()


def _filled_surface(task: Task) -> list[tuple[str, str]]:
    """Compare the mesh with the surface of the file that it fills, if there is one."""
    mesh = task.robot.shape
    if task.fill_source is None or not isinstance(mesh, Mesh):
        return []
    return [("surface of the file", compare_fill(mesh, *task.fill_source).summary())]


def _beams(body: Beams) -> list[tuple[str, str]]:
    rods, along = body.rods, np.outer(body.is_position, np.eye(3)[0]).ravel()
    slender = rods.lengths / np.array(
        [2.0 * max(section.extreme_fibres) for section in rods.sections]
    )
    return [
        (
            "rods",
            f"{len(rods.rods)} between {len(rods.points)} points, from {rods.lengths.min():.4g} "
            f"to {rods.lengths.max():.4g} m long",
        ),
        ("size", " x ".join(f"{s:.4g}" for s in np.ptp(rods.points, axis=0)) + " m"),
        ("mass", f"{body.mass_vjp(along, along) @ body.fields.density:.4g} kg"),
        (
            "slenderness",
            f"a rod is {slender.min():.3g} to {slender.max():.3g} times as long as thick",
        ),
        (
            "parts",
            ", ".join(f"{name} ({len(rods.part_rods(name))} rods)" for name in rods.parts)
            or "none",
        ),
    ]


def _heavy_liquids(robot: Robot) -> list[str]:
    liquids = {
        name: actuator.density
        for name, actuator in robot.actuators.items()
        if isinstance(actuator, Hydraulic)
    }
    return [
        f"The liquid of '{name}' has {density:g} kg/m^3, more than any metal; if it is in g/m^3, "
        f"write {1e-3 * density:g}."
        for name, density in liquids.items()
        if density > DENSITY.plausible[1]
    ]


def _attachments(model: Any) -> list[tuple[str, str]]:
    eq = model.equations
    robot = eq.robot
    attached = (
        f"{len(robot.actuators)} actuators, {len(robot.loads)} loads, {len(robot.contacts)} "
        f"contacts, {len(robot.supports)} supports"
    )
    facts = [
        ("attached", attached),
        ("held unknowns", f"{int(eq.held.sum())} of {eq.n_dofs}"),
        ("free rigid motions", ", ".join(eq.free_rigid_motions()) or "none"),
    ]
    for (name, actuator), (term, _) in zip(eq.robot.actuators.items(), eq.potentials, strict=False):
        if isinstance(term, AttachedCable):
            facts.append(
                (
                    f"cable {name}",
                    f"{term.rest_length:.4g} m long, {term.weights.shape[0]} segments, driven by "
                    f"{term.drive}",
                )
            )
        if isinstance(term, AttachedPressure):
            n_facets = term.weights.shape[0] // term.points_per_block
            held = (
                f", {actuator.density * term.rest_volume:.4g} kg of liquid"
                if isinstance(actuator, Hydraulic)
                else ""
            )
            facts.append(
                (
                    f"cavity {name}",
                    f"{1e6 * term.rest_volume:.4g} ml{held}, closed by {n_facets} facets, driven "
                    f"by {term.drive}",
                )
            )
    for name in eq.robot.effectors:
        at = eq.robot.effector_position(name, eq.body.rest)
        facts.append((f"effector {name}", "at " + ", ".join(f"{x:.4g}" for x in at) + " m"))
    return facts
