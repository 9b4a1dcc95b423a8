"""mpm-bounce: an elastic disc of material points falls and bounces; free fall compared with its
closed form, and energy."""

from collections.abc import Mapping

import numpy as np

from pliant.contact import Contact, plane
from pliant.core import Array
from pliant.dynamics import simulate
from pliant.geometry import Disc
from pliant.materials import Material
from pliant.mpm import MaterialPoint
from pliant.report import Plot
from pliant.report.particle_files import write_vtk
from pliant.report.particle_scene import particle_scene
from pliant.robot import Effector, Robot
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome, Setting

G, RADIUS = 9.81, 0.05  # [m/s^2], [m]


def disc(drop: float) -> Robot:
    """Return a disc whose lowest point is `drop` [m] above the ground."""
    return Robot(
        name="disc",
        shape=Disc(radius=RADIUS, origin=(0.0, drop + RADIUS)),
        cell=0.02,
        order=1,
        gravity=(0.0, -G),
        material=Material(E=2e5, nu=0.3),
        contacts=[Contact(obstacle=plane((0.0, 1.0)))],
        effectors={"disc": Effector(region="body")},
    )


def energy(model: MaterialPoint, x: Array) -> float:
    """Return the energy [J]: kinetic (with the affine velocity field), elastic and potential."""
    body, parts, d = model.body, model.space.split(x), model.dim
    particle_data, n = body.particle_data(body.fields), body.n_particles
    v, C = parts.velocity.reshape(n, d), parts.affine.reshape(n, -1)
    kinetic = (
        0.5
        * particle_data.mass
        @ (np.sum(v * v, axis=1) + 0.25 * model.cell**2 * np.sum(C * C, axis=1))
    )
    material = next(iter(body.materials.values()))
    F = np.tile(np.eye(3), (n, 1, 1))
    F[:, :d, :d] = parts.deformation.reshape(n, d, d)
    elastic = sum(
        volume * material.energy(f) for volume, f in zip(particle_data.volume, F, strict=True)
    )
    return float(kinetic + elastic + G * particle_data.mass @ parts.position.reshape(n, d)[:, -1])


def perform(run: ExperimentRun) -> Outcome:
    s = run.settings
    drop, dt, steps = float(s["drop"]), float(s["dt"]), int(s["steps"])
    model = MaterialPoint(disc(drop), dt=dt, cell=float(s["cell"]))
    path = run.simulate(model, np.zeros((steps, 0)), count=steps, dt=dt).path
    if s["vtk"]:
        write_vtk(run.folder / "vtk", model, path)
    row, times = model.effector_rows("disc")[1], dt * np.arange(steps + 1)
    height = np.array([(row @ model.space.position(x))[0] for x in path])
    speed = np.array([(row @ model.space.velocity(x))[0] for x in path])
    falling = times < np.sqrt(2.0 * max(drop - 1.5 * model.cell, 0.0) / G)
    tau = model.dt / model.substeps
    exact = height[0] - 0.5 * G * times * (
        times + tau
    )  # symplectic Euler: the new velocity moves the particles
    energies = np.array([energy(model, x) for x in path])
    low = int(np.argmin(height))
    top = float(height[low:].max())
    fall_error = np.abs(height - exact)[falling].max(initial=0.0)
    rebound = float((top - height[low]) / (height[0] - height[low]))
    energy_gain = float(
        (energies.max() - energies[0])
        / (
            energies[0]
            - energies.min()
            + G * model.body.particle_data(model.body.fields).mass.sum() * drop
        )
    )
    reached = fall_error < 1e-9 and rebound > 0.75 and energy_gain < 0.01
    return Outcome(
        metrics={
            "free-fall error": Metric(value=float(fall_error), unit="m"),
            "rebound height": Metric(value=rebound, unit="of the drop height"),
            "maximum downward speed": Metric(value=float(-speed.min()), unit="m/s"),
            "maximum upward speed": Metric(value=float(speed.max()), unit="m/s"),
            "energy gain": Metric(value=energy_gain, unit="of the drop energy"),
            "particles": Metric(value=model.body.n_particles),
        },
        plots=[
            Plot(
                title="Centre of the disc",
                x="time [s]",
                y="height [m]",
                series={"disc": (times, height)},
            ),
            Plot(title="Energy", x="time [s]", y="energy [J]", series={"total": (times, energies)}),
        ],
        scene=particle_scene(model, path, title="mpm-bounce", ground=0.0, colour="strain"),
        reached=reached,
        message="done"
        if reached
        else f"the free-fall error is {fall_error:.1g} m, the rebound {100 * rebound:.0f} % of the "
        f"drop height and the energy gain {100 * energy_gain:.2g} %. Use smaller substeps.",
    )


def probe(settings: Mapping[str, Setting]) -> tuple:
    """Return the disc during the bounce."""
    model = MaterialPoint(disc(0.01), dt=0.005, cell=0.02, design=("body.E", "body.density"))
    return model, simulate(model, np.zeros((12, 0))).states[-1], np.zeros(0)


EXPERIMENT = Experiment(
    name="mpm-bounce",
    paper="004",
    shows="an elastic disc of material points falls and bounces: closed form of the fall, rebound "
    "height, energy",
    size="1,260 particles, 2D",
    takes="10 s",
    perform=perform,
    probe=probe,
    settings={
        "drop": 0.1,
        "cell": 0.005,
        "dt": 0.002,
        "steps": 150,
        "vtk": False,
        "small_animation": False,
    },
    quick={"cell": 0.01, "small_animation": True},
)
