"""Train a PyTorch network that drives a soft robot, with the robot inside the autograd graph.

A strip with two cables shall bring its tip to points that the network sees. Each iteration
simulates two episodes as one batch and differentiates their cost by all weights.
"""

import torch

import pliant as pl

cable = lambda y: pl.Cable(points=[(0.0, y), (0.2, y)], limits=(0.0, 1.0))
strip = pl.Robot(
    shape=pl.geometry.Rectangle(size=(0.2, 0.02)),
    divisions=(6, 1),
    order=1,
    thickness=0.02,
    material=pl.Material(E=1e5, nu=0.35, density=1000.0),
    supports=[pl.Support(region="x-")],
    actuators={"lower": cable(0.002), "upper": cable(0.018)},
    effectors={"tip": pl.Effector(point=(0.2, 0.01))},
    damping=pl.Damping(mass=5.0),
)
model = pl.ImplicitEuler(strip, dt=0.04)
layer = pl.learning.torch_layer(model)
n = model.space.n_dofs
tip = torch.tensor(model.effector_rows("tip").toarray())  # positions (n,) -> tip (2,)

torch.manual_seed(0)
network = torch.nn.Sequential(
    torch.nn.Linear(6, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2), torch.nn.Sigmoid()
).double()
targets = torch.tensor([[0.19, 0.03], [0.19, -0.01]], dtype=torch.float64)  # [m]
start = torch.tensor(model.initial_state()).expand(2, -1)
optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
for iteration in range(25):
    x, cost = start, 0.0
    for _ in range(20):
        miss, velocity = (x[:, :n] @ tip.T - targets) / 0.05, x[:, n:] @ tip.T / 0.2
        pulls = network(torch.cat([miss, velocity, targets / 0.05], dim=1))  # [N], 0 to 1
        x = layer(x, pulls)
        cost = cost + (miss**2).sum() + 1e-3 * (pulls**2).sum()
    optimizer.zero_grad()
    cost.backward()
    optimizer.step()
    if iteration in (0, 24):
        print(f"iteration {iteration}: cost {cost.item():.3f}")
misses = torch.linalg.norm(x[:, :n] @ tip.T - targets, dim=1)  # [m]
print("final distances [mm]:", *(f"{1e3 * miss:.1f}" for miss in misses))
