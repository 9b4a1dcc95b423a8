"""Where must a beam be soft, so that its tip bends to a target and its middle stays in place?

First only the force is optimised, then force and stiffness together, then with two materials that
can be printed. The last design is checked with another model.
"""

import pliant as pl

TERMS = [
    pl.Goal(effector="tip", target=(0.19, 0.04), weight=1e4),  # [m]
    pl.Goal(effector="middle", target=(0.1, 0.02), weight=1e4),
]

beam = pl.Robot(
    shape=pl.geometry.Rectangle(size=(0.2, 0.04)),
    divisions=(10, 2),
    thickness=0.04,
    order=1,
    material=pl.Material(E=4e5, nu=0.3, density=1000.0),
    damping=pl.Damping(mass=20.0),
    supports=[pl.Support(region="x-")],
    actuators={"force": pl.actuators.Thrust(point=(0.2, 0.02), limits=(-2.0, 2.0))},
    effectors={"tip": pl.Effector(surface="x+"), "middle": pl.Effector(point=(0.1, 0.02))},
)
model = pl.Quasistatic(beam, design=["cells.E"])
groups = pl.design.field_groups(model, by=0.02, mirror="y")  # symmetric blocks of 2 cm
stiffness = pl.problem.Variable("cells.E", lower=1e5, upper=1e6, groups=groups)

control = pl.plan(model, TERMS, steps=1)
both = pl.codesign(model, TERMS, [stiffness, "controls"], steps=1, method="lbfgsb")
two = both.with_materials(2, method="lbfgsb")
print(f"cost: force {control.cost:.4f}, with stiffness {both.value:.4f}, printed {two.value:.4f}")
for name, material in two.robot.material.items():
    print(f"{name}: E = {material.E:.3g} Pa")

motion = pl.ImplicitEuler(two.robot, dt=0.05)  # it comes to rest under the designed force
run = pl.simulate(motion, 40 * [two.values["controls"][0]])
tip = motion.effector("tip", run.states[-1])[0]
still = two.simulate().states[-1]
print(f"tip: {tip[0]:.5f} {tip[1]:.5f} m, designed {model.effector('tip', still)[0].round(5)} m")
