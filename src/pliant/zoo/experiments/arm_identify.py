"""arm-identify: a coarse model of a soft arm is fitted to motion capture of a finer one, and plans
for it [Spielberg2021, section 5.1; the robot is that of Jia2019].

The recordings come from 10-node elements and BDF2 with a quarter of the time step. The fitted model
has 4-node elements and implicit Euler. The same fit with 10-node elements tells how much of the
remaining error is the mesh, and how much the time step.
"""

from collections.abc import Mapping

import numpy as np

from pliant.core import InputError
from pliant.dynamics import ImplicitEuler, simulate
from pliant.planners import Options, Plan, gauss_newton
from pliant.problem import Effort, Goal, Problem, Variable
from pliant.report.fit_report import value_plots
from pliant.report.robot_scene import robot_scene
from pliant.robot import Robot
from pliant.zoo.arm_fit_report import (
    FINE_MESH,
    FITTED,
    START_MODEL,
    TRUE_VALUES,
    held_out_plot,
    metrics,
    summary_table,
)
from pliant.zoo.arm_laboratory import (
    HOLD,
    NAMES,
    START,
    TARGET,
    TRUTH,
    coarse_arm,
    fine_arm,
    laboratory,
    positions,
    tensions,
)
from pliant.zoo.experiment import Experiment, ExperimentRun, Outcome, Setting
from pliant.zoo.fit_tasks import fit_in


def plan_in(run: ExperimentRun, name: str, robot: Robot) -> Plan:
    """Return the plan of a robot to the target. Raises KeyboardInterrupt if it is interrupted."""
    s = run.settings
    model = ImplicitEuler(robot, dt=float(s["dt"]))
    steps = int(s["plan_steps"])
    goal = Goal(effector="laser", target=TARGET, time=steps * model.dt, weight=1e5)
    problem = Problem(model=model, steps=steps, terms=[goal, Effort(weight=1e-3, order=1)])
    options = Options(
        folder=run.folder / f"plan-{name}", resume=run.resume, progress=run.progress, tolerance=1e-6
    )
    plan = gauss_newton(problem, options=options)
    if plan.interrupted:
        raise KeyboardInterrupt
    return plan


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    lab, sequences = laboratory(s), tensions(s)
    measured = []
    for k, controls in enumerate(sequences):
        run.progress("recording", k, len(sequences))
        measured.append(lab.recording(controls, (run.seed, k), f"recording {k}"))
    models = {
        name: ImplicitEuler(robot, dt=float(s["dt"]), design=list(NAMES))
        for name, robot in (
            (START_MODEL, coarse_arm(START, s)),
            (TRUE_VALUES, coarse_arm(TRUTH, s)),
            (FINE_MESH, fine_arm(START, s)),
        )
    }
    fits = {
        name: fit_in(
            run,
            folder,
            models[of],
            measured[:-1],
            variables(),
            iterations=int(s["iterations"]),
            held_out=measured[-1:],
        )
        for name, folder, of in (
            (FITTED, "fit-coarse", START_MODEL),
            (FINE_MESH, "fit-fine", FINE_MESH),
        )
    }
    robots = {
        START_MODEL: models[START_MODEL].robot,
        TRUE_VALUES: models[TRUE_VALUES].robot,
        **{name: fit.robot for name, fit in fits.items()},
    }
    plans = {name: plan_in(run, f"{k}", robot) for k, (name, robot) in enumerate(robots.items())}
    unfitted = {
        name: float(np.sqrt(np.mean((positions(models[name], measured[-1]) - held_out) ** 2)))
        for held_out in [np.asarray(measured[-1].positions)]
        for name in (START_MODEL, TRUE_VALUES)
    }
    errors = {**unfitted, **{name: fit.held_out[0].rms for name, fit in fits.items()}}
    distances = {name: lab.distance(plan) for name, plan in plans.items()}
    path = run.simulate(
        lab.model,
        np.repeat(plans[FITTED].controls, HOLD, axis=0),
        count=HOLD * len(plans[FITTED].controls),
        dt=lab.model.dt,
    )
    reached = distances[FITTED] < float(s["error"])
    return Outcome(
        metrics=metrics(fits, errors, distances),
        tables=[summary_table(fits, errors, distances, plans)],
        plots=[*value_plots(fits[FITTED]), held_out_plot(fits, models, measured[-1])],
        scene=robot_scene(
            lab.model.robot,
            path.path[::HOLD, : lab.model.space.n_dofs],
            dt=HOLD * lab.model.dt,
            title="arm-identify",
            targets=np.array([TARGET]),
        ),
        reached=reached,
        message="done"
        if reached
        else f"the plan of the fitted model ends {distances[FITTED]:.3g} m from the target.",
        notes=[f"{name}: {fit.summary()}" for name, fit in fits.items()],
    )


def variables() -> list[str | Variable]:
    return [
        "soft.E",
        Variable("soft.nu", lower=0.1, upper=0.49),
        Variable("damping.stiffness", lower=1e-4, upper=0.2),
    ]


def check_settings(settings: Mapping[str, Setting]) -> None:
    """Raise InputError for a plan that is too short to reach the target."""
    if int(settings["plan_steps"]) * float(settings["dt"]) < 0.1:
        raise InputError("The plan is shorter than 0.1 s; give more plan_steps, or a larger dt.")
    coarse_arm(START, settings)


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return a small fitted arm that is bent."""
    model = ImplicitEuler(
        coarse_arm(START, {**settings, "layers": 8, "across": 2}), dt=0.02, design=list(NAMES)
    )
    u = np.array([2.0, 0.0, 5.0, 1.0])
    return model, simulate(model, np.tile(u, (5, 1)), progress=False).states[-1], u


EXPERIMENT = Experiment(
    name="arm-identify",
    paper="004",
    shows="a coarse model fitted to motion capture of a finer arm plans for it; held-out errors, "
    "and the share of the mesh",
    size="525 nodes fitted to 1,025 of 10-node elements",
    takes="4 min",
    perform=perform,
    probe=probe,
    check_settings=check_settings,
    settings={
        "layers": 20,
        "across": 4,
        "fine_across": 2,
        "dt": 0.02,
        "steps": 40,
        "recordings": 2,
        "plan_steps": 25,
        "iterations": 30,
        "error": 5e-3,
        "small_animation": False,
    },
    quick={
        "layers": 8,
        "across": 2,
        "fine_across": 2,
        "steps": 8,
        "recordings": 1,
        "plan_steps": 10,
        "iterations": 8,
        "error": 0.05,
        "small_animation": True,
    },
)
