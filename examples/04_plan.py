"""Plan a gripper motion that brings the tip of a foam rod to a target after half a second."""

import numpy as np

import pliant as pl

frame = pl.actuators.MovingFrame(origin=(0.0, 0.015, 0.015))
rod = pl.Robot(
    shape=pl.Box(size=(0.4, 0.03, 0.03)),
    divisions=(6, 1, 1),
    order=1,
    material=pl.Material(E=6e4, nu=0.4, density=35.0),
    gravity=(0.0, 0.0, -9.81),
    actuators={"hand": pl.Gripper(surface="x-", frame=frame)},
    effectors={"tip": pl.Effector(surface="x+")},
)
model = pl.BDF2(rod, dt=0.02)
# Start at rest in the static equilibrium under gravity.
hanging = model.state(pl.equilibrium(pl.Quasistatic(rod), rod.neutral_controls()).x)

target = (0.3, 0.1, 0.2)
plan = pl.plan(
    model,
    [
        pl.Goal(effector="tip", target=target, time=0.5, weight=100.0),
        pl.Effort(weight=1e-4, order=2),
    ],
    steps=25,
    x0=hanging,
    limits=[pl.Limit(lower=-2.0, upper=2.0, order=1)],  # rates of the gripper, per second
)
print(plan.summary())

tip = model.effector("tip", plan.states[-1])[0]
fastest = float(np.abs(np.diff(plan.controls, axis=0)).max() / model.dt)
print(
    f"tip at {tip.round(4)} m, {np.linalg.norm(tip - target) * 1e3:.2f} mm from the target; "
    f"largest control rate {fastest:.2f} per second"
)
