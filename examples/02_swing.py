"""A strip swings under gravity; the derivative of its last tip height by its stiffness, by the
adjoint and by differences."""

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
run = pl.simulate(model, np.zeros((30, 0)), keep=True)

height = lambda x: strip.place("tip", model.space.position(x))[2]

x_bar = np.zeros(model.space.size)  # d height / d last state
x_bar[2 : model.space.n_dofs : 3] = strip.row("tip").toarray()[0]
_, _, p_bar = pl.pullback(model, run, x_bar)
print(f"tip height after 0.3 s: {height(run.states[-1]):.4f} m")
print(f"its derivative by E, one sweep back: {p_bar[0]:.6e} m/Pa")

up, down = (
    height(pl.simulate(model, np.zeros((30, 0)), p=np.array([E])).states[-1])
    for E in (1.001e6, 0.999e6)
)
print(f"its derivative by E, two more runs: {(up - down) / 2e3:.6e} m/Pa")
