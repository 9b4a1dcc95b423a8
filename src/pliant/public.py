"""The names that `import pliant` offers."""

from pliant import actuators, geometry, planners, problem, surrogate
from pliant.actuators import Cable, Gripper
from pliant.bodies import PointMass
from pliant.contact import Contact, capsule, plane, sphere
from pliant.core import InputError, PliantError, StepError
from pliant.dynamics import (
    BDF2,
    ImplicitEuler,
    Latent,
    MaterialPoint,
    Newton,
    Quasistatic,
    SemiImplicit,
    equilibrium,
    gradcheck,
    pullback,
    simulate,
)
from pliant.geometry import Box, Mesh
from pliant.materials import Material
from pliant.planners import Plan, plan
from pliant.problem import Effort, Goal, Problem, paths
from pliant.robot import (
    Damping,
    Effector,
    MomentLoad,
    PointLoad,
    Robot,
    Support,
    SurfaceLoad,
)
from pliant.robot_files import load_robot
from pliant.zoo import robots

__all__ = [
    "BDF2",
    "Box",
    "Cable",
    "Contact",
    "Damping",
    "Effector",
    "Effort",
    "Goal",
    "Gripper",
    "ImplicitEuler",
    "InputError",
    "Latent",
    "Material",
    "MaterialPoint",
    "Mesh",
    "MomentLoad",
    "Newton",
    "Plan",
    "PliantError",
    "PointLoad",
    "PointMass",
    "Problem",
    "Quasistatic",
    "Robot",
    "SemiImplicit",
    "StepError",
    "Support",
    "SurfaceLoad",
    "actuators",
    "capsule",
    "equilibrium",
    "geometry",
    "gradcheck",
    "load_robot",
    "paths",
    "plan",
    "plane",
    "planners",
    "problem",
    "pullback",
    "robots",
    "simulate",
    "sphere",
    "surrogate",
]
