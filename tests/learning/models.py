"""Small models for the tests of controllers, loops and environments."""

import pliant as pl


def strip(damping=None, **parts):
    """Return a plane strip with a cable under tension and an effector at its tip."""
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.2, 0.02)),
        divisions=(4, 1),
        thickness=0.02,
        order=1,
        material=pl.Material(E=1e5, nu=0.35, density=1000.0),
        supports=(pl.Support(region="x-"),),
        effectors={"tip": pl.Effector(point=(0.2, 0.01))},
        actuators={
            "upper": pl.Cable(points=[(0.0, 0.018), (0.2, 0.018)], limits=(0.0, 1.0)),
            "lower": pl.Cable(points=[(0.0, 0.002), (0.2, 0.002)], limits=(0.0, 1.0)),
        },
        damping=damping or pl.Damping(stiffness=0.01),
        gravity=(0.0, -9.81),
        **parts,
    )


def mass():
    """Return a point mass of 1 kg with a force in the plane as its control."""
    return pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0]], mass_each=1.0),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
        effectors={"tip": pl.Effector(point=(0.0, 0.0))},
    )


def fem(design=("body.E",)):
    return pl.ImplicitEuler(strip(), dt=0.02, design=design)


def latent():
    return pl.Latent(strip(), dt=0.02, cell=0.5)


def particles(design=("body.E",)):
    return pl.MaterialPoint(strip(damping=pl.Damping(mass=2.0)), dt=0.005, cell=0.01, design=design)


def reach(steps=10, **options):
    """Return a task that moves the tip up with little effort."""
    from pliant.learning import ControlTask

    goal = pl.Goal(effector="tip", target=(0.19, 0.04), weight=100.0)
    swing = pl.problem.Reward(effector="tip", direction=(0.0, 1.0), weight=0.1)
    terms = [goal, swing, pl.Effort(weight=1e-3), pl.Effort(weight=1e-5, order=2)]
    return ControlTask(steps=steps, terms=terms, **options)


MODELS = {"FEM": fem, "latent": latent, "particles": particles}
