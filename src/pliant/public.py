"""The names that `import pliant` offers."""

from pliant.actuators import Cable, Gripper
from pliant.bodies import PointMass
from pliant.contact import Contact, capsule, plane, sphere
from pliant.core import InputError, PliantError, StepError
from pliant.design import codesign, identify, load_recordings
from pliant.dynamics import (
    BDF2,
    Condensed,
    ImplicitEuler,
    Latent,
    Quasistatic,
    SemiImplicit,
    SolverOptions,
    equilibrium,
    gradcheck,
    pullback,
    simulate,
)
from pliant.geometry import Box, Mesh
from pliant.materials import Material
from pliant.mpm import MaterialPoint
from pliant.planners import Options, Plan, mpc, plan
from pliant.planners.inverse_control import inverse_control
from pliant.problem import Effort, Goal, Limit, Problem, keep_out, paths
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
    "Condensed",
    "Contact",
    "Damping",
    "Effector",
    "Effort",
    "Goal",
    "Gripper",
    "ImplicitEuler",
    "InputError",
    "Latent",
    "Limit",
    "Material",
    "MaterialPoint",
    "Mesh",
    "MomentLoad",
    "Options",
    "Plan",
    "PliantError",
    "PointLoad",
    "PointMass",
    "Problem",
    "Quasistatic",
    "Robot",
    "SemiImplicit",
    "SolverOptions",
    "StepError",
    "Support",
    "SurfaceLoad",
    "capsule",
    "codesign",
    "equilibrium",
    "gradcheck",
    "identify",
    "inverse_control",
    "keep_out",
    "load_recordings",
    "load_robot",
    "mpc",
    "paths",
    "plan",
    "plane",
    "pullback",
    "robots",
    "simulate",
    "sphere",
]
