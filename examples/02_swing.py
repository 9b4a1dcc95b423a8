"""Swing a strip under gravity and differentiate its final tip height by Young's modulus."""

import numpy as np

import pliant as pl

strip = pl.Robot(
    name="strip",
    shape=pl.geometry.Strip(length=0.2, width=0.02, thickness=0.005),
    cell=0.01,
    material=pl.Material(E=1e6, nu=0.4, density=1100.0),
    supports=[pl.Support(region="x-")],
    effectors={"tip": pl.Effector(surface="x+")},
    gravity=np.array([0.0, 0.0, -9.81]),
    damping=pl.Damping(stiffness=0.002),
)
model = pl.ImplicitEuler(strip, dt=0.01, design=["body.E"])
no_controls = np.zeros((30, 0))
run = pl.simulate(model, no_controls, keep=True)
print(f"tip height after 0.3 s: {model.effector('tip', run.states[-1])[0, 2]:.4f} m")

# One reverse sweep: x_bar is the derivative of the height by the final state.
x_bar = model.effector_jacobian("tip", run.states[-1]).toarray()[2]
_, _, p_bar = pl.pullback(model, run, x_bar)
print(f"derivative by E, adjoint: {p_bar[0]:.6e} m/Pa")

# Two more simulations check it.
up, down = (
    model.effector("tip", pl.simulate(model, no_controls, p=np.array([E])).states[-1])[0, 2]
    for E in (1.001e6, 0.999e6)
)
print(f"derivative by E, finite difference: {(up - down) / 2e3:.6e} m/Pa")
