"""mpm-slope: a block of material points on a slope sticks or slides according to Coulomb's law."""

from collections.abc import Mapping

import numpy as np

from pliant.contact import Contact, plane
from pliant.dynamics import simulate
from pliant.geometry import Rectangle
from pliant.materials import Material
from pliant.mpm import MaterialPoint
from pliant.report import Plot
from pliant.report.particle_files import write_vtk
from pliant.report.particle_scene import particle_scene
from pliant.robot import Damping, Effector, Robot
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting

G, SIDE = 9.81, 0.1  # [m/s^2], [m]


def block(angle: float, friction: float) -> Robot:
    """Return a block above flat ground; gravity is tilted by an angle [deg] instead."""
    a = np.radians(angle)
    return Robot(
        name="block",
        shape=Rectangle(size=(2.0 * SIDE, SIDE), origin=(0.0, 0.012)),
        divisions=(4, 2),
        order=1,
        material=Material(E=1e5, nu=0.3),
        gravity=G * np.array([np.sin(a), -np.cos(a)]),
        damping=Damping(stiffness=0.003),
        contacts=[Contact(obstacle=plane((0.0, 1.0)), friction=friction)],
        effectors={"block": Effector(region="body")},
    )


def slide(run: ExperimentRun, angle: float, record: bool) -> tuple:
    """Return the model, its states, the times [s] and the speed [m/s] along the slope."""
    s = run.settings
    model = MaterialPoint(block(angle, float(s["friction"])), dt=0.01, cell=float(s["cell"]))
    steps = int(s["steps"])
    no_controls = np.zeros((steps, 0))
    states = (
        run.simulate(model, no_controls, count=steps, dt=model.dt).path
        if record
        else simulate(model, no_controls).states
    )
    speed = np.array([(model.effector_rows("block") @ model.space.velocity(x))[0] for x in states])
    return model, states, model.dt * np.arange(steps + 1), speed


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    mu, critical = float(s["friction"]), float(np.degrees(np.arctan(float(s["friction"]))))
    angles = [critical - 8.0, critical - 3.0, critical + 3.0, critical + 8.0]
    curves, metrics, largest = {}, {}, 0.0
    for k, angle in enumerate(angles):
        run.progress("sliding", k + 1, len(angles))
        model, states, times, speed = slide(run, angle, record=k == len(angles) - 1)
        late = times > 0.5 * times[-1]
        measured, a = float(np.polyfit(times[late], speed[late], 1)[0]), np.radians(angle)
        expected = max(0.0, G * (np.sin(a) - mu * np.cos(a)))
        largest = max(largest, abs(measured - expected))
        curves[f"{angle:.1f} deg"] = (times, speed)
        metrics[f"acceleration at {angle:.1f} deg"] = Metric(value=measured, unit="m/s^2")
        metrics[f"Coulomb acceleration at {angle:.1f} deg"] = Metric(value=expected, unit="m/s^2")
    if s["vtk"]:
        write_vtk(run.folder / "vtk", model, states)
    reached = largest <= 0.05
    return Outcome(
        metrics={
            "friction angle": Metric(value=critical, unit="deg"),
            "largest acceleration error": Metric(value=largest, unit="m/s^2"),
            **metrics,
        },
        plots=[Plot(title="Speed along the slope", x="time [s]", y="speed [m/s]", series=curves)],
        scene=particle_scene(
            model,
            states,
            title=f"mpm-slope (gravity tilted by {angles[-1]:.1f} degrees)",
            ground=0.0,
            colour="strain",
        ),
        reached=reached,
        message="done"
        if reached
        else f"the largest acceleration error is {largest:.3g} m/s^2. Use smaller cells "
        "or more steps.",
    )


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return the sliding block."""
    model = MaterialPoint(
        block(30.0, 0.3), dt=0.01, cell=0.04, design=("body.E", "contact0.friction")
    )
    return model, simulate(model, np.zeros((12, 0))).states[-1], np.zeros(0)


EXPERIMENT = Experiment(
    name="mpm-slope",
    paper="004",
    shows="a block of material points sticks below the friction angle and slides above it with "
    "Coulomb's acceleration",
    size="800 particles, contact and friction",
    takes="15 s",
    perform=perform,
    probe=probe,
    settings={"friction": 0.4, "cell": 0.01, "steps": 80, "vtk": False, "small_animation": False},
    quick={"cell": 0.02, "steps": 60, "small_animation": True},
)
