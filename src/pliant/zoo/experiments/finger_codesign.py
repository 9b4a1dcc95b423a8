"""finger-codesign: a finger that is identified and co-designed with particles, and then simulated
and replanned with finite elements."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pliant.core import Array, InputError
from pliant.design import RobotDesign, codesign
from pliant.dynamics import simulate
from pliant.optimisation.result import OPTIMISATION
from pliant.planners import Options, Plan, gauss_newton
from pliant.problem import Problem
from pliant.report.robot_scene import robot_scene
from pliant.robot import Robot
from pliant.robot_files import load_robot
from pliant.store import remove_files
from pliant.zoo.codesign_check_report import DesignCheck, check_metrics, check_plots, check_tables
from pliant.zoo.designed_finger import (
    KNOTS,
    NAMES,
    ROUTE,
    START,
    TENSION,
    designed_variables,
    finger,
    finite_elements,
    fitted_variables,
    particles,
    recordings,
    tensions,
    terms,
)
from pliant.zoo.experiment import Experiment, ExperimentRun, Outcome, Setting
from pliant.zoo.fit_tasks import fit_in


def design_in(run: ExperimentRun, name: str, robot: Robot, design: tuple[str, ...]) -> RobotDesign:
    """Return the co-design of a robot in a folder of the run: of its tensions, and of its material
    and cables if there are names of parameters in `design`."""
    s, folder = run.settings, run.folder / name
    if not run.resume:
        remove_files(folder, "*")
    model = particles(robot, s, design)
    E = next(iter(robot.materials_by_region().values())).E
    found = codesign(
        model,
        terms(s),
        designed_variables(model, E) if design else [tensions()],
        steps=int(s["steps"]),
        method="lbfgsb",
        iterations=int(s["iterations"]),
        checks=2,
        folder=folder,
        resume=run.resume and OPTIMISATION.exists(folder),
        progress=run.progress,
    )
    if found.result.interrupted:
        raise KeyboardInterrupt
    return found


def replanned(run: ExperimentRun, name: str, robot: Robot, guess: Array) -> Plan:
    """Return the plan of a robot of finite elements that starts from given controls."""
    s = run.settings
    problem = Problem(model=finite_elements(robot, s), steps=int(s["steps"]), terms=terms(s))
    options = Options(
        folder=run.folder / name, resume=run.resume, progress=run.progress, tolerance=1e-6
    )
    plan = gauss_newton(problem, guess=guess, options=options)
    if plan.interrupted:
        raise KeyboardInterrupt
    return plan


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    measured = recordings(s, run.seed)
    fit = fit_in(run, "fit", particles(finger(START), s, NAMES), measured, fitted_variables())
    alone = design_in(run, "controls-alone", fit.robot, ())
    design = design_in(run, "codesign", fit.robot, ("cells.E", *ROUTE))
    printed = design.with_materials(
        int(s["materials"]),
        method="lbfgsb",
        iterations=int(s["iterations"]),
        progress=run.progress,
    )
    printed.export(run.folder / "print")
    robot = load_robot(run.folder / "print" / "robot.toml")
    assert isinstance(robot, Robot)
    elements, u = finite_elements(robot, s), printed.values["controls"]
    plan = replanned(run, "replanned", robot, u)
    check = DesignCheck(
        fit=fit,
        designs={"controls alone": alone, "co-design": design, "few materials": printed},
        elements=elements,
        states=simulate(elements, u, progress=False).states,
        plan=plan,
        fresh=replanned(run, "planned", robot, np.tile([0.2 * TENSION, 0.0], (len(u), 1))),
    )
    n = check.elements.space.n_dofs
    path = run.save_trajectory(plan.states, plan.controls, dt=float(s["dt"]))
    close = check.difference < float(s["difference"])
    return Outcome(
        metrics=check_metrics(check),
        tables=check_tables(check),
        plots=check_plots(check, float(s["dt"])),
        scene=robot_scene(
            robot,
            path.path[:, :n],
            dt=float(s["dt"]),
            title="finger-codesign",
            targets=check.targets,
        ),
        reached=close,
        message="done"
        if close
        else f"the displacement of the tip with finite elements differs by {check.difference:.1%} "
        "from that of the design. Take a smaller cell.",
        notes=[fit.summary(), *fit.notes, *design.notes, *printed.notes],
    )


def check_settings(settings: Mapping[str, Setting]) -> None:
    """Raise InputError for fewer steps than the task needs."""
    if int(settings["steps"]) < 2 * KNOTS:
        raise InputError(
            f"The setting steps is {settings['steps']}; give {2 * KNOTS} or more for the "
            f"{KNOTS} knots of the tensions and the targets."
        )


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return the finger of particles while its left cable is pulled."""
    coarse = {**settings, "cell": 0.015, "dt": 0.01}
    model = replace(particles(finger(START), coarse, (*NAMES, *ROUTE[:2])), memory=None)
    u = np.array([4.0, 1.0])
    return model, simulate(model, np.tile(u, (10, 1)), progress=False).states[-1], u


EXPERIMENT = Experiment(
    name="finger-codesign",
    shows="a finger is identified and co-designed with particles, reduced to three materials, and "
    "simulated and replanned with finite elements",
    size="180 particles, 45 moduli, 8 cable points; 720 6-node triangles",
    takes="4 min",
    perform=perform,
    probe=probe,
    check_settings=check_settings,
    settings={
        "dt": 0.01,
        "steps": 50,
        "cell": 0.01,
        "iterations": 30,
        "materials": 3,
        "difference": 0.1,  # of the tip's displacement with finite elements
        "small_animation": False,
    },
    quick={
        "steps": 15,
        "cell": 0.015,
        "iterations": 2,
        "small_animation": True,
    },
)
