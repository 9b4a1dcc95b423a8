"""A LinkedRobot as the arrays that compiled code takes."""

import numpy as np

from pliant.core import Array
from pliant.swimming.link_kernels import Chain
from pliant.swimming.linked_robot import LinkedRobot


def make_chain(robot: LinkedRobot) -> Chain:
    """Return the arrays of a robot."""
    links, hinges = list(robot.links.values()), list(robot.hinges.values())
    names, link_names = list(robot.hinges), list(robot.links)
    motor = np.full(len(hinges), -1)
    motor[list(robot.motors)] = np.arange(robot.n_controls)
    effectors = list(robot.effectors.values())
    lower, upper = robot.angle_limits
    fluid = float(robot.fluid_density)
    return Chain(
        order=_indices([names.index(name) for name in robot.order]),
        parent=_indices([link_names.index(h.parent) for h in hinges]),
        child=_indices([link_names.index(h.child) for h in hinges]),
        moves=np.ascontiguousarray(robot.moves),
        axis=_rows([h.axis for h in hinges]),
        point=_rows([h.point for h in hinges]),
        child_point=_rows([h.child_point for h in hinges]),
        mass=np.array([link.mass for link in links], float),
        inertia=np.array([link.inertia for link in links], float),
        centre=_rows([link.centre_of_mass for link in links]),
        displaced=np.array([fluid * link.shape.volume for link in links], float),
        centroid=_rows([link.shape.centroid for link in links]),
        gravity=np.array(robot.gravity, float),
        stiffness=np.array([h.stiffness for h in hinges], float),
        damping=np.array([h.damping for h in hinges], float),
        stop=robot.stops,
        lower=np.ascontiguousarray(lower),
        upper=np.ascontiguousarray(upper),
        motor=_indices(motor),
        effector_link=_indices([link_names.index(e.link) for e in effectors]),
        effector_point=_rows([e.point for e in effectors]),
    )


def _indices(values: object) -> Array:
    return np.asarray(values, np.int64).reshape(-1)


def _rows(values: object) -> Array:
    """Return points (k, 3), also if there are none."""
    return np.array(values, float).reshape(-1, 3)
