"""A hanging arm swings up to a goal region and stops there after 2 s.

Eight pressures are variables, alone at two stiffnesses of the arm, and together with the stiffness
of its ten blocks. The actuation cost is the integral of the squared pressures over their limit.
"""

import numpy as np

import pliant as pl

STEPS, DT, KNOTS = 40, 0.05, 21
GOAL, RADIUS = np.array([0.15, -0.36]), 0.02  # [m]
PRESSURE = 7.2e3  # [Pa]
SOFTEST, SOFT, STIFF = 3e4, 6e4, 8e4  # [Pa]


def swing_up(E, codesign=False):
    """Return the optimised variables and their cost."""
    arm = pl.robots.chamber_arm(E=E, pressure=PRESSURE, damping=0.5, plane=True)
    design = [f"{name}.E" for name in arm.materials_by_region()] if codesign else []
    model = pl.MaterialPoint(arm, dt=DT, cell=0.04, substeps=17, design=design)
    t = np.linspace(-STEPS * DT, -DT, KNOTS)
    push = -0.5 * PRESSURE * np.sin(2.0 * np.pi * t)  # to and fro, once a second
    guess = [np.maximum(push if name.startswith("left") else -push, 0.0) for name in arm.actuators]
    moduli = [
        pl.problem.Variable(name, lower=SOFTEST, upper=STIFF, scale=0.1 * SOFT) for name in design
    ]
    in_goal = pl.problem.Constraint(
        effector="tip",
        function=lambda y: (y - GOAL) / RADIUS,
        inside=pl.problem.Ball(centre=(0.0, 0.0), radius=1.0),
        time=STEPS * DT,
    )
    task = pl.Problem(
        model=model,
        steps=STEPS,
        terms=[pl.Effort(weight=2.0 / PRESSURE**2)],
        constraints=[in_goal, pl.problem.AtRest(speed=0.1, time=STEPS * DT)],
        variables=[
            pl.problem.Variable("controls", knots=KNOTS, start=np.transpose(guess)),
            *moduli,
        ],
    )
    return pl.optimisation.optimise(task, "sqp", iterations=22, progress=False)


fixed, both = swing_up(SOFT), swing_up(SOFT, codesign=True)
for name, result in (("fixed", fixed), ("co-design", both)):
    print(f"{name}: cost {result.value:.3f} s, violation {result.best.violation:.1g}")
print(f"share: {both.value / fixed.value:.2f}")
