"""Fit a coarse model of a soft arm to motion capture of a finer one, and plan with it.

The recordings come from 10-node elements and BDF2; the model has 4-node elements and larger steps.
"""

import numpy as np

import pliant as pl

DT, HOLD, NOISE, STEPS = 0.02, 4, 3e-4, 12  # [s], fine steps in a step, [m], [-]
TARGET = (0.03, 0.04, 0.18)  # [m]
NAMES = ["soft.E"]
MARKERS = [(x, y, z) for z in (0.1, 0.2) for x, y in ((0.02, 0.0), (-0.01, 0.02), (0.0, -0.02))]

lab = pl.BDF2(pl.robots.line_arm(layers=8, across=2, order=2, soft=2e5), dt=DT / HOLD)
coarse = pl.robots.line_arm(layers=8, across=2, order=1, soft=3e5)
model = pl.ImplicitEuler(coarse, dt=DT, design=NAMES)


def measure(controls):  # positions of the whole fine arm; each control is held for DT
    states = pl.simulate(lab, np.repeat(controls, HOLD, axis=0)).states[::HOLD]
    return states[:, : lab.space.n_dofs].reshape(len(states), -1, 3)


def record(k):
    times = DT * np.arange(1, STEPS + 1)
    controls = np.zeros((STEPS, 4))
    controls[:, k], controls[:, k + 1] = 4.0 * np.sin(6.0 * times) ** 2, np.sin(9.0 * times) ** 2
    q = np.einsum("mn,tnd->tmd", lab.body.locate(np.array(MARKERS)).toarray(), measure(controls))
    return pl.design.MarkerRecording(
        times=DT * np.arange(STEPS + 1),
        positions=q + NOISE * np.random.default_rng(k).standard_normal(q.shape),
        points=MARKERS,
        controls=controls,
        noise=NOISE,
        name=f"recording {k}",
    )


def plan_error(robot):  # distance [m] of the fine arm's laser to the target, by the robot's plan
    goal = pl.Goal(effector="laser", target=TARGET, time=STEPS * DT, weight=1e5)
    plan = pl.plan(pl.ImplicitEuler(robot, dt=DT), [goal, pl.Effort(weight=1e-3)], steps=STEPS)
    laser = lab.robot.effector_position("laser", measure(plan.controls)[-1].ravel())
    return np.linalg.norm(laser - TARGET)


fit = pl.identify(model, [record(0), record(1)], NAMES, held_out=record(2))
fit.show()
before, after = 1e3 * plan_error(coarse), 1e3 * plan_error(fit.robot)
print(f"distance after the plan: {before:.1f} mm before the fit, {after:.1f} mm after it")
