"""arm-identify: a coarse model of a soft arm is fitted to motion capture of a finer one, and plans
for it [Spielberg2021, section 5.1; the robot is that of Jia2019].

The recordings come from 10-node elements and BDF2 with a quarter of the time step. The fitted model
has 4-node elements and implicit Euler. The same fit with 10-node elements tells how much of the
remaining error is the mesh, and how much the time step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pliant.core import Array, InputError
from pliant.design import Fit, MarkerRecording, Prediction
from pliant.dynamics import BDF2, ImplicitEuler, simulate
from pliant.planners import Options, Plan, gauss_newton
from pliant.problem import Effort, Goal, Problem, Variable
from pliant.report import Plot
from pliant.report.fit_report import value_plots
from pliant.report.page import PageTable
from pliant.report.robot_scene import robot_scene
from pliant.robot import Damping, Robot
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.fit_tasks import FAR, fit_in
from pliant.zoo.robots import line_arm
from pliant.zoo.robots.line_arms import LENGTH, WIDTH

NAMES = ("soft.E", "soft.nu", "damping.stiffness")
TRUTH = dict(zip(NAMES, (2e5, 0.4, 0.02), strict=True))  # [Pa], [-], [s]
START = dict(zip(NAMES, (3e5, 0.3, 0.04), strict=True))
HOLD = 4  # steps of the fine model in a control step
NOISE = 3e-4  # [m]
TARGET = (0.06, 0.08, 0.16)  # [m]
SEQUENCES = 20_210_052  # seed of the tensions; they are no noise
START_MODEL, TRUE_VALUES, FITTED, FINE_MESH = (
    "start values",
    "true values, 4-node mesh",
    "fitted, 4-node mesh",
    "fitted, 10-node mesh",
)


def arm(values: Mapping[str, float], *, layers: int, across: int, order: int) -> Robot:
    """Return the arm with given parameters."""
    made = line_arm(layers=layers, across=across, order=order, soft=values["soft.E"])
    materials = dict(made.material)  # type: ignore[arg-type]
    materials["soft"] = replace(materials["soft"], nu=values["soft.nu"])
    damping = Damping(mass=0.5, stiffness=values["damping.stiffness"])
    return replace(made, material=materials, damping=damping)


def fine_arm(values: Mapping[str, float], settings: Mapping[str, Setting]) -> Robot:
    """Return the arm of 10-node elements that is measured."""
    sizes = {"layers": int(settings["layers"]), "across": int(settings["fine_across"])}
    return arm(values, **sizes, order=2)


def coarse_arm(values: Mapping[str, float], settings: Mapping[str, Setting]) -> Robot:
    """Return the arm of 4-node elements that is fitted."""
    sizes = {"layers": int(settings["layers"]), "across": int(settings["across"])}
    return arm(values, **sizes, order=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Laboratory:
    """The measured arm: a fine model, and markers on its surface."""

    model: BDF2
    control_dt: float  # [s] for which a control is held

    @property
    def markers(self) -> Array:
        """The rest points (13, 3) [m] of four rings of three markers, and of the laser."""
        heights, half = LENGTH * np.array([0.25, 0.5, 0.75, 1.0]), 0.5 * WIDTH
        ring = half * np.array([(1.0, 0.0), (-0.5, 1.0), (-0.5, -1.0)])
        rings = [(x, y, z) for z in heights for x, y in ring]
        return np.array([*rings, (0.0, 0.0, LENGTH)])

    def states(self, controls: Array) -> Array:
        """Return the states (k + 1, n_state) at the control steps of tensions (k, 4) [N]."""
        held = np.repeat(controls, HOLD, axis=0)
        return simulate(self.model, held, progress=False).states[::HOLD]

    def recording(self, controls: Array, seed: Sequence[int], name: str) -> MarkerRecording:
        """Return a noisy recording of the markers at the control steps."""
        weights, n = self.model.body.locate(self.markers), self.model.space.n_dofs
        q = np.array([weights @ x[:n].reshape(-1, 3) for x in self.states(controls)])
        noise = NOISE * np.random.default_rng(list(seed)).standard_normal(q.shape)
        return MarkerRecording(
            times=self.control_dt * np.arange(len(q)),
            positions=q + noise,
            points=self.markers,
            controls=controls,
            noise=NOISE,
            name=name,
        )

    def distance(self, plan: Plan) -> float:
        """Return the distance [m] of the laser to the target after a plan."""
        laser = self.model.effector("laser", self.states(plan.controls)[-1])[0]
        return float(np.linalg.norm(laser - TARGET))


def laboratory(settings: Mapping[str, Setting]) -> Laboratory:
    dt = float(settings["dt"])
    return Laboratory(model=BDF2(fine_arm(TRUTH, settings), dt=dt / HOLD), control_dt=dt)


def tensions(settings: Mapping[str, Setting]) -> list[Array]:
    """Return tensions (steps, 4) [N] of each recording: two cables that are pulled periodically."""
    rng, steps = np.random.default_rng(SEQUENCES), int(settings["steps"])
    times, out = float(settings["dt"]) * np.arange(1, steps + 1), []
    for _ in range(int(settings["recordings"]) + 1):
        largest = rng.uniform(5.0, 15.0, 4) * (rng.permutation(4) < 2)  # [N]
        frequency = rng.uniform(1.0, 3.0, 4)  # [Hz]
        out.append(largest * np.sin(np.pi * frequency * times[:, None]) ** 2)
    return out


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
            FAR,
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


def positions(model: ImplicitEuler, recording: MarkerRecording) -> Array:
    """Return the predicted positions (n, m, 3) [m] of the markers of a recording."""
    states = simulate(model, np.asarray(recording.controls), progress=False).states
    weights = model.body.locate(np.asarray(recording.points))
    return np.array([weights @ x.reshape(-1, 3) for x in states[:, : model.space.n_dofs]])


def mesh_share(errors: Mapping[str, float]) -> float:
    """Return the share of the mesh in the mean squared error of the fitted model that is no
    noise."""
    coarse, fine = (max(errors[name] ** 2 - NOISE**2, 0.0) for name in (FITTED, FINE_MESH))
    return 1.0 - fine / coarse if coarse > 0.0 else 0.0


def metrics(
    fits: Mapping[str, Fit], errors: Mapping[str, float], distances: Mapping[str, float]
) -> dict[str, Metric]:
    """Return values, held-out errors and the distances of the plans."""
    values = {
        f"{name}, {label}": Metric(value=float(fit.values[name]), unit=fit.units[name])
        for label, fit in fits.items()
        for name in NAMES
    }
    return {
        **{
            f"distance after the plan, {name}": Metric(value=1e3 * distance, unit="mm")
            for name, distance in distances.items()
        },
        **{
            f"held-out rms error, {name}": Metric(value=1e3 * error, unit="mm")
            for name, error in errors.items()
        },
        "noise of a coordinate": Metric(value=1e3 * NOISE, unit="mm"),
        "share of the mesh in the squared held-out error": Metric(
            value=100.0 * mesh_share(errors), unit="%"
        ),
        "ratio of the distances, start values over fitted": Metric(
            value=distances[START_MODEL] / distances[FITTED]
        ),
        **values,
        "iterations": Metric(value=fits[FITTED].status.iterations),
        "simulations": Metric(value=fits[FITTED].simulations),
    }


def summary_table(
    fits: Mapping[str, Fit],
    errors: Mapping[str, float],
    distances: Mapping[str, float],
    plans: Mapping[str, Plan],
) -> PageTable:
    """Return the parameters, errors and distances of each model."""
    values = {
        START_MODEL: START,
        TRUE_VALUES: TRUTH,
        **{name: fit.values for name, fit in fits.items()},
    }
    rows = tuple(
        (
            name,
            *(float(values[name][one]) for one in NAMES),
            1e3 * errors[name],
            1e3 * plans[name].goal_errors[0][2],
            1e3 * distances[name],
        )
        for name in distances
    )
    columns = (
        "model",
        "soft.E [Pa]",
        "soft.nu",
        "damping.stiffness [s]",
        "held-out rms error [mm]",
        "distance expected by the plan [mm]",
        "distance on the measured arm [mm]",
    )
    return PageTable(title="Models and their plans", columns=columns, rows=rows)


def held_out_plot(
    fits: Mapping[str, Fit], models: Mapping[str, ImplicitEuler], recording: MarkerRecording
) -> Plot:
    """Return the distance of the predicted laser to the measured one over time."""
    part: Prediction = fits[FITTED].held_out[0]
    curves = {
        name: positions(models[name], recording) - part.measured
        for name in (START_MODEL, TRUE_VALUES)
    } | {name: fit.held_out[0].residuals for name, fit in fits.items()}
    return Plot(
        title="Held-out recording: error of the laser",
        x="time [s]",
        y="distance [m]",
        log_y=True,
        series={
            name: (part.axis, np.linalg.norm(residuals[:, -1], axis=1))
            for name, residuals in curves.items()
        },
        references={"noise": float(np.sqrt(3.0)) * NOISE},
    )


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
    takes="10 min",
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
        "error": 0.02,
        "small_animation": True,
    },
)
