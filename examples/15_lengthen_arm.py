"""A hanging arm finds the length at which its tip reaches a target that it cannot stretch to.

First the best pressures at the first length, then the length alone, by Adam. Particles, and the
same with finite elements.
"""

import numpy as np

import pliant as pl

STEPS, DT = 15, 0.02
TARGET = (0.0, -0.42)  # [m] below the ceiling; the arm is 0.3 m long

arm = pl.design.ParametrisedRobot(
    make=pl.robots.chamber_arm(length=0.3, E=1e5, pressure=2e4, damping=10.0, plane=True),
    parameters={"length": pl.design.Stretch(axis="-y", value=0.3, lower=0.2, upper=0.6)},
)
particles = arm.model(pl.MaterialPoint, dt=DT, cell=0.015)
elements = arm.model(pl.ImplicitEuler, dt=DT)


def optimise(model, variables, controls, method, iterations):
    """Return the best variables and their distance [m] to the target."""
    task = pl.Problem(
        model=model,
        terms=[pl.Goal(effector="tip", target=TARGET, time=STEPS * DT)],
        scenes=[pl.problem.Scene(STEPS, controls=controls)],
        variables=variables,
    )
    result = pl.optimisation.optimise(task, method, iterations=iterations, progress=False)
    return result.values, np.sqrt(2.0 * result.value)


def report(name, model):
    pressures = pl.problem.Variable("controls", knots=3)
    _, stretched = optimise(model, [pressures], None, "lbfgsb", 12)
    zero = np.zeros((STEPS, model.n_controls))
    adam = pl.optimisation.Adam(rate=0.05)
    values, distance = optimise(model, ["shape.length"], zero, adam, 40)
    length = values["shape.length"][0]
    print(
        f"{name}: stretched {1e3 * stretched:.1f} mm, "
        f"length {length:.4f} m, distance {1e3 * distance:.3f} mm"
    )


report("particles", particles)
report("finite elements", elements)
