"""Check a robot file: its mesh, units, supports, actuators and first time step."""

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pliant.actuators import AttachedCable, AttachedPressure, Hydraulic
from pliant.bodies import Beams, Solid
from pliant.core import Step, StepError, counted
from pliant.geometry import Mesh, compare_fill, mesh_quality
from pliant.materials import DENSITY
from pliant.robot import Robot
from pliant.robot_files import LinkedTask, Task, default_task, load_task
from pliant.robot_files.identification_task import IdentificationObjective
from pliant.zoo.identification import check_identification
from pliant.zoo.linked_check import linked_facts
from pliant.zoo.order_warnings import order_warnings, overlap_warnings
from pliant.zoo.registry import find_robot


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """Properties of a robot as (name, text) pairs, and warnings."""

    facts: list[tuple[str, str]]
    warnings: list[str]


def check(name: str | Path) -> CheckReport:
    """Check the robot of a file, of `pliant.robots` or of an experiment, and simulate one step.

    A soft robot is checked for its mesh, units, supports and actuators, a linked robot for its
    masses, buoyancy, gaps and added mass. Raises `StepError` if the step fails.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task = _task_of(name)
        facts, warnings_found, step = (
            _check_links(task) if isinstance(task, LinkedTask) else _check_body(task)
        )
    if not step.status:
        raise StepError(
            " ".join([f"The first step of {name} failed: {step.status.text}", *warnings_found])
        )
    messages = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    # The robot repeats the warnings of its mesh with its own name in front.
    new = [text for text in messages if not any(warning in text for warning in warnings_found)]
    return CheckReport(facts=facts, warnings=list(dict.fromkeys([*warnings_found, *new])))


def _task_of(name: str | Path) -> Task | LinkedTask:
    """Return the task of a robot file, or the default task of a robot by name."""
    if isinstance(name, Path) or name.lower().endswith(".toml") or os.path.exists(name):
        return load_task(name)
    return default_task(find_robot(name))


def _check_links(task: LinkedTask) -> tuple[list[tuple[str, str]], list[str], Step]:
    """Return the facts and the warnings of a linked robot, and its first step."""
    facts, warnings_found = linked_facts(task.robot, task.points)
    model = task.model()
    step = model.step(model.initial_state(), task.control(0))
    first = [
        ("robot", task.robot.name),
        ("states", str(model.space.size)),
        ("controls", str(model.n_controls)),
    ]
    return [*first, *facts, ("first step", step.status.text)], warnings_found, step


def _check_body(task: Task) -> tuple[list[tuple[str, str]], list[str], Step]:
    """Return the facts and the warnings of a soft robot, and its first step."""
    model = task.model()
    body = task.robot.body()
    facts = [
        ("robot", task.robot.name),
        ("unknowns", str(model.space.n_dofs)),
        ("controls", str(model.n_controls)),
    ]
    warnings_found: list[str] = []
    if isinstance(body, Solid):
        solid_facts, warnings_found = _solid_facts(body)
        facts += solid_facts + _surface_file_facts(task)
        warnings_found += [*order_warnings(body), *overlap_warnings(body)]
    if isinstance(body, Beams):
        facts += _beam_facts(body)
    facts += _attachment_facts(model)
    if isinstance(task.objective, IdentificationObjective):
        facts.append(("measurements", check_identification(task, model)))
    warnings_found += _liquid_density_warnings(task.robot)
    step = model.step(model.initial_state(), task.control(0))
    facts.append(("first step", f"converged in {step.status.iterations} Newton iterations"))
    return facts, warnings_found, step


def _solid_facts(body: Solid) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the facts and the warnings of a solid body."""
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
            "stable time step",
            "unlimited for implicit rules; about "
            f"{float((edge / speed).min()):.2g} s for an explicit rule",
        ),
    ]
    return facts, q.warnings()


def _surface_file_facts(task: Task) -> list[tuple[str, str]]:
    """Return the comparison of the mesh with the surface file that it fills, if there is one."""
    mesh = task.robot.shape
    if task.fill_source is None or not isinstance(mesh, Mesh):
        return []
    return [("surface of the file", compare_fill(mesh, *task.fill_source).summary())]


def _beam_facts(body: Beams) -> list[tuple[str, str]]:
    """Return the facts of a body of rods."""
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
            f"length over thickness of the rods: {slender.min():.3g} to {slender.max():.3g}",
        ),
        (
            "parts",
            ", ".join(f"{name} ({len(rods.part_rods(name))} rods)" for name in rods.parts)
            or "none",
        ),
    ]


def _liquid_density_warnings(robot: Robot) -> list[str]:
    """Return a warning for each liquid that is denser than any metal."""
    liquids = {
        name: actuator.density
        for name, actuator in robot.actuators.items()
        if isinstance(actuator, Hydraulic)
    }
    return [
        f"The liquid of '{name}' has {density:g} kg/m^3, more than any metal. If it is in g/m^3, "
        f"write {1e-3 * density:g}."
        for name, density in liquids.items()
        if density > DENSITY.plausible[1]
    ]


def _attachment_facts(model: Any) -> list[tuple[str, str]]:
    """Return the facts of actuators, loads, contacts, supports and effectors."""
    eq = model.equations
    robot = eq.robot
    attached = ", ".join(
        counted(len(getattr(robot, kind)), kind.removesuffix("s"))
        for kind in ("actuators", "loads", "contacts", "supports")
    )
    facts = [
        ("attachments", attached),
        ("fixed unknowns", f"{int(eq.held.sum())} of {eq.n_dofs}"),
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
