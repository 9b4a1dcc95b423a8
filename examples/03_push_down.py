"""Push a soft finger onto a ball with a moving support and compute the contact force."""

import numpy as np

import pliant as pl

finger = pl.Robot(
    name="finger",
    shape=pl.geometry.Cylinder(radius=0.01, length=0.05),
    cell=0.005,
    order=1,
    material=pl.Material(E=1e5, nu=0.45),
    supports=[pl.Support(region="top", motion=lambda t: np.array([0.0, 0.0, -0.02 * min(t, 0.5)]))],
    contacts=[pl.Contact(obstacle=pl.sphere((0.0, 0.0, -0.02), 0.02), stiffness=1e8, friction=0.4)],
    damping=pl.Damping(stiffness=0.01),
)
model = pl.ImplicitEuler(finger, dt=0.02)
run = pl.simulate(model, np.zeros((40, 0)))

# The contact force on the finger is minus the gradient of the contact potential.
contact = finger.contacts[0].attach(finger.body())
points = contact.weights @ model.space.position(run.states[-1]).reshape(-1, 3)
force = -contact.gradient(points, np.zeros(0)).sum(axis=0)
print(f"vertical contact force: {force[2]:.3f} N, with the support 10 mm lower")
