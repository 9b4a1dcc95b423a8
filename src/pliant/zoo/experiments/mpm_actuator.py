"""mpm-actuator: a nearly incompressible actuator of material points oscillates, with three laws of
elasticity [Spielberg2021, section 3]."""

from collections.abc import Mapping
from time import perf_counter

import numpy as np

from pliant.actuators import Fluidic
from pliant.core import Array
from pliant.dynamics import simulate
from pliant.geometry import Rectangle, Union
from pliant.materials import Material
from pliant.mpm import MaterialPoint
from pliant.report import Plot
from pliant.report.particle_scene import particle_scene
from pliant.robot import Damping, Effector, Robot, Support
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting

MODULUS, POISSON = 1e5, 0.45  # [Pa], nearly incompressible
PRESSURE = 3e4  # [Pa] largest, of one side after the other
LENGTH, HEIGHT = 0.2, 0.04  # [m]
MODEST = 0.2  # of the range of the tip, between the laws that the paper compares
LAWS = ("neo-hookean", "fixed-corotated", "linear-corotated")


def actuator(law: str) -> Robot:
    """Return a beam of two layers, each of which expands under its pressure."""
    half = (LENGTH, 0.5 * HEIGHT)
    layers = {
        "lower": Rectangle(size=half),
        "upper": Rectangle(size=half, origin=(0.0, 0.5 * HEIGHT)),
    }
    return Robot(
        name="actuator",
        shape=Union(parts=layers),
        divisions=(10, 2),
        order=1,
        material=Material(E=MODULUS, nu=POISSON, density=1000.0, law=law),
        supports=[Support(region="x-")],
        damping=Damping(mass=2.0),
        actuators={name: Fluidic(region=name, limits=(0.0, PRESSURE)) for name in layers},
        effectors={"tip": Effector(surface="x+")},
    )


def actuator_model(law: str, settings: Mapping[str, Setting]) -> MaterialPoint:
    """Return the actuator with particles."""
    return MaterialPoint(
        actuator(law), dt=float(settings["dt"]), cell=float(settings["cell"]), per_cell=3
    )


def pressures(settings: Mapping[str, Setting]) -> Array:
    """Return the pressures (steps, 2) [Pa] of both layers: half a wave each, in turn."""
    times = float(settings["dt"]) * np.arange(int(settings["steps"]))
    wave = PRESSURE * np.sin(2.0 * np.pi * float(settings["frequency"]) * times)
    return np.stack([np.maximum(wave, 0.0), np.maximum(-wave, 0.0)], axis=1)


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    controls, dt = pressures(s), float(s["dt"])
    tips, seconds, scene = {}, {}, None
    for k, law in enumerate(LAWS):
        run.progress("simulating", k, len(LAWS))
        model = actuator_model(law, s)
        model.step(model.initial_state(), controls[0])  # compiles
        start = perf_counter()
        states = simulate(model, controls, progress=False).states
        seconds[law] = (perf_counter() - start) / (len(controls) * model.substeps)
        tips[law] = np.array([model.effector("tip", x)[0, 1] for x in states]) - 0.5 * HEIGHT
        if scene is None:
            scene = particle_scene(
                model, states, controls=controls, title="mpm-actuator", colour="actuation"
            )
    assert scene is not None
    first = LAWS[0]
    size = {law: float(np.ptp(tip)) for law, tip in tips.items()}
    away = {law: float(np.abs(tip - tips[first]).max()) / size[first] for law, tip in tips.items()}
    times = dt * np.arange(len(controls) + 1)
    reached = 0.0 < away[LAWS[1]] < MODEST
    return Outcome(
        metrics={
            **{
                f"range of the tip, {law}": Metric(value=one, unit="m") for law, one in size.items()
            },
            **{
                f"largest distance from {first}, {law}": Metric(
                    value=100.0 * away[law],
                    unit="% of its range",
                    paper="modest" if law == LAWS[1] else None,
                )
                for law in LAWS[1:]
            },
            **{
                f"time of a substep over that of {first}, {law}": Metric(
                    value=seconds[law] / seconds[first], paper="1"
                )
                for law in LAWS[1:]
            },
            "particles": Metric(value=model.body.n_particles),
        },
        plots=[
            Plot(
                title="Tip",
                x="time [s]",
                y="height above the rest position [m]",
                series={law: (times, tip) for law, tip in tips.items()},
            )
        ],
        scene=scene,
        reached=reached,
        message="done"
        if reached
        else f"the {LAWS[1]} law differs not at all, or by more than {MODEST:.0%} of the range. "
        "Use smaller cells.",
    )


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return the actuator while its lower layer expands."""
    model, u = actuator_model(LAWS[0], settings), np.array([0.5 * PRESSURE, 0.0])
    return model, simulate(model, np.tile(u, (8, 1)), progress=False).states[-1], u


EXPERIMENT = Experiment(
    name="mpm-actuator",
    paper="004",
    shows="a nearly incompressible actuator oscillates: neo-Hookean and two corotated laws",
    size="2,880 particles, 2 pressures, 3 laws",
    takes="20 s",
    perform=perform,
    probe=probe,
    settings={
        "cell": 0.005,
        "dt": 0.01,
        "steps": 150,
        "frequency": 2.0,
        "small_animation": False,
    },
    quick={"cell": 0.01, "steps": 60, "small_animation": True},
)
