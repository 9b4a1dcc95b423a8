"""diamond-nonlinear-mpc: the Diamond follows a spiral around a forbidden ball, on a robot that
differs from the controller's model [Menager2024, future work]."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pliant.contact import Obstacle, sphere
from pliant.core import Array, InputError
from pliant.dynamics import BDF2, Latent, Quasistatic, equilibrium
from pliant.materials import Material
from pliant.planners import NonlinearController, Options, Plan, gauss_newton, mpc, nonlinear_mpc
from pliant.problem import Effort, Goal, Problem, keep_out, paths
from pliant.report import Plot, palette
from pliant.report.robot_scene import robot_scene
from pliant.report.scene import Line
from pliant.robot import Robot
from pliant.surrogate import Chebyshev
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.robots import diamond

# Squared millimetres of error count as much as a change of the tensions by 7 N in a second.
TRACKING_WEIGHT, RATE_WEIGHT = 1e6, 2e-5
# of the tension limit: shapes of moving limbs are those of tensions beyond it
DOMAIN_MARGIN = 0.6
SUBSTEPS = 2  # of the controlled robot in a control step

# (step, measured tip [m]) -> controls
TipPolicy = Callable[[int, Array], Array]


def model_robot(s: Mapping[str, Setting]) -> Robot:
    return diamond(along=int(s["along"]), order=int(s["order"]), tension=float(s["tension"]))


def true_robot(s: Mapping[str, Setting]) -> Robot:
    """Return the controlled robot: 10-node cells, a finer mesh and a softer material."""
    robot = diamond(along=int(s["plant_along"]), order=2, tension=float(s["tension"]))
    assert isinstance(robot.material, Material)
    softer = replace(robot.material, E=float(s["stiffness_factor"]) * robot.material.E)
    return replace(robot, material=softer)


def controller_model(run: ExperimentRun) -> Latent:
    """Return the model of the controller, whose equilibria are all computed before the motion."""
    s = run.settings
    robot, tension = model_robot(s), float(s["tension"])
    below, above = -DOMAIN_MARGIN * tension, (1.0 + DOMAIN_MARGIN) * tension
    domain = np.full(robot.n_controls, below), np.full(robot.n_controls, above)
    model = Latent(
        robot,
        dt=float(s["dt"]),
        cell=tension,
        store=run.corner_file(),
        surrogate=lambda corners: Chebyshev(corners, domain=domain, degree=int(s["degree"])),
        progress=run.progress,
    )
    run.closing(model)
    return model


@dataclass(frozen=True, kw_only=True, eq=False)
class SpiralTask:
    """A spiral of the tip and a forbidden ball on its last turn."""

    path: paths.Path
    zone_centre: Array  # (3,) [m]
    zone_radius: float  # [m]
    margin: float  # [m] of the controllers
    steps: int

    @classmethod
    def around(cls, start: Array, s: Mapping[str, Setting]) -> "SpiralTask":
        """Return the task for a tip that rests at `start` (3,)."""
        duration = float(s["duration"])
        path = paths.spiral(
            centre=start,
            radii=(0.0, float(s["radius"])),
            period=duration,
            turns=float(s["turns"]),
        )
        place = path(duration * (1.0 - 0.5 / float(s["turns"])))  # half a turn before the end
        outward = (place - start) / np.linalg.norm(place - start)
        zone_radius = float(s["zone_radius"])
        return cls(
            path=path,
            zone_centre=place + 0.5 * zone_radius * outward,
            zone_radius=zone_radius,
            margin=float(s["margin"]),
            steps=round(duration / float(s["dt"])),
        )

    @cached_property
    def zone(self) -> Obstacle:
        """The forbidden ball."""
        return sphere(self.zone_centre, self.zone_radius)

    def problem(self, model: Latent) -> Problem:
        return Problem(
            model=model,
            steps=self.steps,
            terms=tracking_terms(self.path),
            constraints=[keep_out("tip", self.zone, margin=self.margin)],
        )

    def targets(self, dt: float) -> Array:
        """Return the points (steps + 1, 3) [m] of the path."""
        return np.array([self.path(k * dt) for k in range(self.steps + 1)])


def tracking_terms(path: paths.Path) -> list[Goal | Effort]:
    return [
        Goal(effector="tip", target=path, weight=TRACKING_WEIGHT),
        Effort(weight=RATE_WEIGHT, order=1),
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class PlantMotion:
    """A motion of the controlled robot."""

    states: Array  # (steps + 1, n_state)
    tips: Array  # (steps + 1, 3) [m]
    controls: Array  # (steps, n_controls)
    seconds: Array  # (steps,) processor time of each control step


def simulate_plant(
    plant: BDF2, policy: TipPolicy, steps: int, s: Mapping, seed: int
) -> PlantMotion:
    """Simulate a policy that measures the tip with noise and acts with a delay."""
    random, waiting = (
        np.random.default_rng(seed),
        [plant.neutral_controls() for _ in range(int(s["delay"]))],
    )
    rest = equilibrium(Quasistatic(plant.robot), plant.neutral_controls()).x
    states, controls, seconds = [plant.state(rest)], [], []
    tips = [plant.effector("tip", states[0])[0]]
    for k in range(steps):
        measured = tips[-1] + float(s["noise"]) * random.standard_normal(3)
        start = time.thread_time()
        controls.append(policy(k, measured))
        seconds.append(time.thread_time() - start)
        waiting.append(controls[-1])
        u, x = waiting.pop(0), states[-1]
        for j in range(SUBSTEPS):
            step = plant.step(x, u, None, SUBSTEPS * k + j)
            if not step.status:
                raise InputError(f"The controlled robot fails in step {k}: {step.status.text}")
            x = step.x
        states.append(x)
        tips.append(plant.effector("tip", x)[0])
    return PlantMotion(
        states=np.array(states),
        tips=np.array(tips),
        controls=np.array(controls),
        seconds=np.array(seconds),
    )


def feedback(controller: object) -> TipPolicy:
    """Return a policy that calls a controller, from its first state on."""
    state = controller.begin()  # type: ignore[attr-defined]  # both controllers have these members

    def policy(k: int, measured: Array) -> Array:
        nonlocal state
        u, state = controller.act(state, measured)  # type: ignore[attr-defined]
        return u

    return policy


def plan_around_zone(
    task: SpiralTask, controller: NonlinearController, run: ExperimentRun
) -> tuple[Problem, Plan]:
    """Return a problem without constraints, and its plan: a motion of the model that avoids the
    zone. It is the motion of the model with the non-linear controller, planned again."""
    model: Latent = controller.problem.model  # type: ignore[assignment]
    state, controls = replace(controller, delay=0).begin(), []
    tips = [controller.predicted_positions(state)]
    for _ in range(task.steps):
        u, state = replace(controller, delay=0).act(state, None)
        controls.append(u)
        tips.append(controller.predicted_positions(state))
    detour = np.array(tips)
    problem = Problem(
        model=model,
        steps=task.steps,
        terms=tracking_terms(lambda t: detour[min(round(t / model.dt), task.steps)]),
    )
    options = Options(progress=run.progress, folder=run.folder / "plan", resume=run.resume)
    plan = gauss_newton(problem, guess=np.array(controls), options=options)
    if plan.interrupted:
        raise KeyboardInterrupt
    return problem, plan


@dataclass(frozen=True, kw_only=True, eq=False)
class TrackingResult:
    """Errors of a motion. Steps at which the path itself is in the ball or its margin do not
    count."""

    errors: Array  # (steps + 1,) [m] distance from the path; NaN where the path is not allowed
    depth: float  # [m] largest depth of the tip in the ball

    @property
    def rms(self) -> float:
        return float(np.sqrt(np.nanmean(self.errors**2)))

    def metrics(self, name: str) -> dict[str, Metric]:
        largest = float(np.nanmax(self.errors))
        return {
            f"tracking error, {name}": Metric(value=1e3 * self.rms, unit="mm"),
            f"largest tracking error, {name}": Metric(value=1e3 * largest, unit="mm"),
            f"depth in the forbidden ball, {name}": Metric(value=1e3 * self.depth, unit="mm"),
        }


def tracking_results(
    task: SpiralTask, motions: Mapping[str, PlantMotion], dt: float
) -> dict[str, TrackingResult]:
    targets = task.targets(dt)
    allowed = task.zone(targets)[0] > task.margin
    return {
        name: TrackingResult(
            errors=np.where(allowed, np.linalg.norm(motion.tips - targets, axis=1), np.nan),
            depth=max(0.0, -float(task.zone(motion.tips)[0].min())),
        )
        for name, motion in motions.items()
    }


def control_metrics(name: str, motion: PlantMotion, problem: Problem) -> dict[str, Metric]:
    milliseconds = 1e3 * motion.seconds[1:]  # the first call loads libraries
    median, late = np.percentile(milliseconds, [50, 99])
    time_name = f"control step processor time, {name}"
    return {
        f"control bound violation, {name}": Metric(
            value=problem.limit_violation(motion.controls), unit="of the control range"
        ),
        f"{time_name}, median": Metric(value=float(median), unit="ms"),
        f"{time_name}, 99th percentile": Metric(value=float(late), unit="ms"),
    }


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    model = controller_model(run)
    task = SpiralTask.around(model.effector("tip", model.initial_state())[0], s)
    problem = task.problem(model)
    nonlinear = nonlinear_mpc(
        problem,
        effectors="tip",
        horizon=int(s["horizon"]),
        gain=float(s["gain"]),
        delay=int(s["known_delay"]),
    )
    tracking, plan = plan_around_zone(task, nonlinear, run)
    linear = mpc(
        tracking,
        plan,
        effectors="tip",
        horizon=int(s["horizon"]),
        response_steps=int(s["response_steps"]),
        gain=float(s["linear_gain"]),
    )
    plant = BDF2(true_robot(s), dt=model.dt / SUBSTEPS)
    policies: dict[str, TipPolicy] = {
        "plan": lambda k, measured: plan.controls[k],
        "linear": feedback(linear),
        "non-linear": feedback(nonlinear),
    }
    motions = {}
    for done, (name, policy) in enumerate(policies.items()):
        run.progress("simulating the controlled robot", done, len(policies))
        motions[name] = simulate_plant(plant, policy, task.steps, s, run.seed)
    best, tracked = motions["non-linear"], tracking_results(task, motions, model.dt)
    run.save_trajectory(best.states, best.controls, dt=model.dt)
    own = tracked["non-linear"]
    others = min(tracked["plan"].rms, tracked["linear"].rms)
    reached = own.depth == 0.0 and own.rms < others
    metrics: dict[str, Metric] = {}
    for name, motion in motions.items():
        metrics |= tracked[name].metrics(name)
        if name != "plan":
            metrics |= control_metrics(name, motion, problem)
    scene = robot_scene(
        plant.robot,
        best.states[:, : plant.space.n_dofs],
        dt=model.dt,
        title=run.identity,
        targets=task.targets(model.dt)[-1:],
    )
    outline = [Line(points=curve, colour=palette.SECONDARY) for curve in task.zone.outline]
    return Outcome(
        metrics={**metrics, "nodes": Metric(value=plant.space.n_dofs // 3)},
        plots=_plots(model.dt, task, motions, tracked),
        scene=replace(scene, lines=(*scene.lines, *outline)),
        reached=reached,
        message="done"
        if reached
        else f"the non-linear controller has a tracking error of {1e3 * own.rms:.2g} mm, "
        f"the linear one {1e3 * tracked['linear'].rms:.2g} mm, and the tip is up to "
        f"{1e3 * own.depth:.2g} mm inside the forbidden ball. Change --set gain=... or "
        "--set margin=... .",
    )


def _plots(
    dt: float,
    task: SpiralTask,
    motions: Mapping[str, PlantMotion],
    tracked: Mapping[str, TrackingResult],
) -> list[Plot]:
    targets = task.targets(dt)
    times, angle = dt * np.arange(len(targets)), np.linspace(0.0, 2.0 * np.pi, 60)
    centre, radius = task.zone_centre, task.zone_radius
    return [
        Plot(
            title="Tip from above",
            x="x [mm]",
            y="y [mm]",
            equal=True,
            series={
                "forbidden": (
                    1e3 * (centre[0] + radius * np.cos(angle)),
                    1e3 * (centre[1] + radius * np.sin(angle)),
                ),
                "path": (1e3 * targets[:, 0], 1e3 * targets[:, 1]),
                **{
                    name: (1e3 * motion.tips[:, 0], 1e3 * motion.tips[:, 1])
                    for name, motion in motions.items()
                },
            },
            thin=("path",),
        ),
        Plot(
            title="Tracking error away from the forbidden ball",
            x="time [s]",
            y="error [mm]",
            series={name: (times, 1e3 * one.errors) for name, one in tracked.items()},
        ),
        Plot(
            title="Distance of the tip from the forbidden ball",
            x="time [s]",
            y="distance [mm]",
            series={
                name: (times, 1e3 * task.zone(motion.tips)[0]) for name, motion in motions.items()
            },
            references={"surface": 0.0},
        ),
        Plot(
            title="Tensions of the non-linear controller",
            x="time [s]",
            y="tension [N]",
            kind="steps",
            series={
                f"cable {j + 1}": (times[:-1], u)
                for j, u in enumerate(motions["non-linear"].controls.T)
            },
        ),
    ]


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return the controlled robot after some steps."""
    plant = BDF2(true_robot(settings), dt=float(settings["dt"]) / SUBSTEPS)
    x, u = plant.initial_state(), np.array([1.0, 0.5, 0.2, 0.7])
    for k in range(3):
        x = plant.step(x, u, None, k).x
    return plant, x, u


EXPERIMENT = Experiment(
    name="diamond-nonlinear-mpc",
    paper="001",
    shows="the tip of the Diamond follows a spiral around a ball, on a softer robot with a finer "
    "mesh, delay and noise; beside the linear controller and the plan alone",
    size="4 cables, 200 control steps at 50 Hz",
    takes="4 min",
    perform=perform,
    probe=probe,
    settings={
        "duration": 4.0,
        "turns": 2.0,
        "radius": 0.02,
        "zone_radius": 0.003,
        "margin": 0.0015,
        "dt": 0.02,
        "along": 6,
        "order": 2,
        "tension": 2.5,
        "degree": 5,
        "plant_along": 7,
        "stiffness_factor": 0.8,
        "delay": 1,
        "known_delay": 1,
        "noise": 1e-4,
        "horizon": 12,
        "gain": 0.6,
        "linear_gain": 0.2,
        "response_steps": 30,
        "small_animation": False,
    },
    quick={
        "duration": 2.0,
        "turns": 1.0,
        "along": 4,
        "radius": 0.012,
        "plant_along": 4,
        "degree": 4,
        "small_animation": True,
    },
)
