"""arm-swingup: a hanging arm swings until its tip reaches a goal and stops there, with fixed and
with co-optimised stiffness [Spielberg2021, section 5.3.1, Fig. 10]."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pliant.core import Array, InputError, quoted
from pliant.dynamics import simulate
from pliant.mpm import MaterialPoint
from pliant.optimisation import OptimisationResult, ProblemObjective
from pliant.problem import AtRest, Ball, Constraint, Effort, Problem, Variable
from pliant.report import DrawnScene, Line, Plot, palette
from pliant.report.particle_scene import particle_scene
from pliant.robot import Damping, Robot
from pliant.store import Trajectory
from pliant.zoo.codesign_report import REACHED, convergence_plots, costs
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting
from pliant.zoo.optimised_tasks import optimise_in
from pliant.zoo.robots.chamber_arm_robot import LENGTH, chamber_arm

UNIT = 200.0  # [Pa] one unit of the paper's moduli, whose unit is not given
SOFTEST, SOFT, STIFF = 150 * UNIT, 300 * UNIT, 400 * UNIT  # [Pa]
ARM_LENGTH = 0.4  # [m]
PRESSURE = 0.12 * SOFT  # [Pa] at rest it moves the tip by a fifth of the way to the goal
DAMPING = 0.5  # [1/s]
GOAL, RADIUS = (0.15, -0.36), 0.02  # [m] x and height of the goal region
SPEED = 0.1  # [m/s] root mean square velocity that counts as rest
KNOTS = 21  # of the pressures, one in 0.1 s
PERIOD, SHARE = 1.0, 0.5  # [s] of the first guess, about that of the swing; of the pressure limit
SUBSTEP = 0.8  # of the time in which a wave crosses a cell of the stiffest arm
BLOCKS = ("base", *(f"{side}{k}" for k in (1, 2, 3, 4) for side in ("left", "right")), "tip")
CHANGE = 0.1 * SOFT  # [Pa] of a modulus; that of a pressure is half its limit


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A design of the arm: its first modulus [Pa], and whether the moduli are variables."""

    name: str
    E: float
    codesign: bool = False


CONFIGURATIONS = (
    Configuration(name="fixed-300", E=SOFT),
    Configuration(name="co-design", E=SOFT, codesign=True),
    Configuration(name="fixed-400", E=STIFF),
)


def arm_model(
    settings: Mapping[str, Setting], choice: Configuration, coarsening: float
) -> MaterialPoint:
    """Return the model of the arm. All configurations have the same substeps."""
    dt, cell = float(settings["dt"]), 2.0 * ARM_LENGTH / LENGTH * coarsening
    robot = arm(E=choice.E, plane=bool(settings["plane"]))
    design = [f"{name}.E" for name in BLOCKS] if choice.codesign else []
    # of a pressure wave at nu = 0.3
    speed = np.sqrt(1.35 * STIFF / robot.materials_by_region()["tip"].density)
    substeps = int(np.ceil(dt * speed / (SUBSTEP * cell)))
    return MaterialPoint(robot, dt=dt, cell=cell, substeps=substeps, design=design, memory=1e9)


def arm(*, E: float, plane: bool) -> Robot:
    """Return the arm that hangs from the ceiling."""
    return chamber_arm(length=ARM_LENGTH, E=E, pressure=PRESSURE, damping=DAMPING, plane=plane)


def swing(model: MaterialPoint, steps: int) -> Array:
    """Return pressures (KNOTS, 8) [Pa] that drive the arm to and fro and push it to the goal's side
    before the end."""
    t = np.linspace(-steps * model.dt, -model.dt, KNOTS)
    push = SHARE * PRESSURE * np.sin(-2.0 * np.pi * t / PERIOD)
    sides = [1.0 if name.startswith("left") else -1.0 for name in model.robot.actuators]
    return np.stack([np.maximum(side * push, 0.0) for side in sides], axis=1)


def objective(model: MaterialPoint, steps: int) -> ProblemObjective:
    """Return the actuation cost, the integral of the squared pressures over their limit [s], with
    the constraints that the tip is in the goal region and the arm at rest at the end."""
    goal, end = goal_centre(model.dim), steps * model.dt
    inside = Constraint(
        effector="tip",
        function=lambda y: (y - goal) / RADIUS,
        inside=Ball(centre=np.zeros(model.dim), radius=1.0),
        time=end,
    )
    moduli = [
        Variable(block.name, lower=SOFTEST, upper=STIFF, scale=CHANGE)
        for block in model.params.blocks
    ]
    problem = Problem(
        model=model,
        steps=steps,
        terms=[Effort(weight=2.0 / PRESSURE**2)],
        constraints=[inside, AtRest(speed=SPEED, time=end)],
        variables=[Variable("controls", knots=KNOTS, start=swing(model, steps)), *moduli],
    )
    return ProblemObjective(problem, checkpoints="all")


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    coarsening, steps = float(s["coarsening"]), int(s["steps"])
    coarse: dict[str, OptimisationResult] = {}
    coarsest = 2.0 * coarsening if s["coarse_start"] else coarsening
    if s["coarse_start"]:
        count = int(s["coarse_iterations"])
        coarse = {
            one.name: solve(run, one, f"{one.name}-coarse", coarsest, count)
            for one in CONFIGURATIONS
        }
    found = {
        one.name: solve(run, one, one.name, coarsening, int(s["iterations"]), coarse.get(one.name))
        for one in CONFIGURATIONS
    }
    best = found["co-design"]
    model = designed(s, best, coarsening)
    path = run.simulate(model, best.values["controls"], count=steps, dt=model.dt)
    tips = np.array([model.effector("tip", x)[0] for x in path.path])
    missed = [name for name, one in found.items() if one.best.violation > REACHED]
    times = model.dt * np.arange(steps + 1)
    return Outcome(
        metrics={
            "particles": Metric(value=model.body.n_particles, paper=17280),
            "pressures": Metric(value=model.n_controls, paper=8),
            "simulated time": Metric(value=steps * model.dt, unit="s", paper=2.0),
            "substeps": Metric(value=steps * model.substeps),
            **costs("", found, "co-design"),
            **(costs(" with twice the cell", coarse, "co-design") if coarse else {}),
            "distance of the tip from the centre of the goal region": Metric(
                value=float(np.linalg.norm(tips[-1] - goal_centre(model.dim))), unit="m"
            ),
            "root mean square velocity at the end": Metric(
                value=mean_speed(model, path.path[-1]), unit="m/s"
            ),
            "tip on the other side before": Metric(value=float(-tips[:, 0].min()), unit="m"),
            "tip at rest, softest arm, all pressures of a side at their limit": Metric(
                value=static_reach(s, coarsest), unit="m"
            ),
        },
        plots=[
            *convergence_plots("", found),
            *(convergence_plots(", twice the cell", coarse) if coarse else []),
            Plot(
                title="Motion of the tip, co-design",
                x="time [s]",
                y="x, height above the hanging tip [m]",
                series={"x": (times, tips[:, 0]), "height": (times, tips[:, -1] + ARM_LENGTH)},
                references={"x of the goal": GOAL[0]},
            ),
            Plot(
                title="Pressures, co-design",
                x="time [s]",
                y="pressure [kPa]",
                kind="steps",
                series={
                    name: (times[1:], 1e-3 * u)
                    for name, u in zip(model.robot.actuators, path.controls.T, strict=True)
                },
            ),
            Plot(
                title="Moduli, co-design",
                x="block, from the ceiling to the tip",
                y="E [kPa]",
                kind="both",
                series=moduli_by_side(best),
                references={"start": 1e-3 * SOFT},
            ),
        ],
        scene=drawn(model, path),
        reached=not missed,
        message=f"{' and '.join(missed)} violates the constraints; allow more iterations"
        if missed
        else "done",
    )


def solve(
    run: ExperimentRun,
    choice: Configuration,
    folder: str,
    coarsening: float,
    iterations: int,
    start: OptimisationResult | None = None,
) -> OptimisationResult:
    """Optimise a configuration in a folder of the run, from the result of another one or from the
    first guess."""
    task = objective(arm_model(run.settings, choice, coarsening), int(run.settings["steps"]))
    z = None if start is None else start.z
    method = str(run.settings["method"])
    return optimise_in(run, folder, task, method, iterations=iterations, start=z)


def designed(
    settings: Mapping[str, Setting], result: OptimisationResult, coarsening: float
) -> MaterialPoint:
    """Return the model of the arm with optimised moduli."""
    model = arm_model(settings, CONFIGURATIONS[1], coarsening)
    p = np.concatenate([result.values[block.name] for block in model.params.blocks])
    return with_robot(model, model.robot_with_params(p))


def with_robot(model: MaterialPoint, robot: Robot) -> MaterialPoint:
    """Return the same model of another robot, without design parameters."""
    return MaterialPoint(robot, dt=model.dt, cell=model.cell, substeps=model.substeps)


def drawn(model: MaterialPoint, path: Trajectory) -> DrawnScene:
    """Return the scene of the swing, with the goal region."""
    centre, angle = goal_centre(model.dim), np.linspace(0.0, 2.0 * np.pi, 60)
    circle = np.zeros((60, model.dim))
    circle[:, 0], circle[:, -1] = RADIUS * np.cos(angle), RADIUS * np.sin(angle)
    scene = particle_scene(
        model, path.path, controls=path.controls, title="arm-swingup", targets=centre[None]
    )
    region = Line(points=centre + circle, colour=palette.TARGET)
    return replace(scene, lines=(*scene.lines, region))


def goal_centre(dim: int) -> Array:
    """Return the centre (dim,) [m] of the goal region."""
    return np.array([GOAL[0], *(dim - 2) * [0.0], GOAL[1]])


def mean_speed(model: MaterialPoint, x: Array) -> float:
    """Return the root mean square velocity [m/s] of the particles."""
    return float(np.sqrt(model.dim * np.mean(model.space.velocity(x) ** 2)))


def static_reach(settings: Mapping[str, Setting], coarsening: float) -> float:
    """Return the x [m] of the tip at which the softest arm comes to rest, strongly damped, under
    all pressures of one side at their limit."""
    model = arm_model(settings, Configuration(name="softest", E=SOFTEST), coarsening)
    damped = replace(model.robot, damping=Damping(mass=20.0 * DAMPING))
    still = with_robot(model, damped)
    u = [PRESSURE if name.startswith("left") else 0.0 for name in model.robot.actuators]
    last = simulate(still, np.tile(u, (2 * int(settings["steps"]), 1))).states[-1]
    return float(still.effector("tip", last)[0, 0])


def moduli_by_side(result: OptimisationResult) -> dict[str, tuple[Array, Array]]:
    """Return the moduli [kPa] from the ceiling to the tip, one curve for each side."""
    E = {name: 1e-3 * float(result.values[f"{name}.E"][0]) for name in BLOCKS}
    return {
        side: (
            np.arange(6.0),
            np.array([E["base"], *(E[f"{side}{k}"] for k in (1, 2, 3, 4)), E["tip"]]),
        )
        for side in ("left", "right")
    }


def check_settings(settings: Mapping[str, Setting]) -> None:
    """Raise InputError for methods that take no constraints."""
    if settings["method"] not in ("sqp", "interior_point"):
        raise InputError(
            f"The method {quoted(settings['method'])} takes no constraints; choose sqp or "
            "interior_point."
        )


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return a coarse arm that swings."""
    chosen = {**settings, "plane": True, "dt": 0.01}
    model = arm_model(chosen, CONFIGURATIONS[1], 4.0)
    controls = swing(model, 20)[:20:4]
    return model, simulate(model, controls).states[-1], controls[-1]


EXPERIMENT = Experiment(
    name="arm-swingup",
    paper="004",
    shows="a hanging arm swings to a goal and stops there, with less pressure if its stiffness is "
    "optimised too",
    size="17,280 particles, 8 pressures, 2,600 substeps",
    takes="1 h",
    perform=perform,
    probe=probe,
    check_settings=check_settings,
    settings={
        "plane": False,
        "coarsening": 1.0,
        "dt": 0.02,
        "steps": 100,
        "coarse_start": True,
        "coarse_iterations": 40,
        "iterations": 16,
        "method": "sqp",
        "small_animation": False,
    },
    quick={
        "plane": True,
        "coarsening": 4.0,
        "dt": 0.05,
        "steps": 40,
        "coarse_start": False,
        "iterations": 22,
        "small_animation": True,
    },
)
