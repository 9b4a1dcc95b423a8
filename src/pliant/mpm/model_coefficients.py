"""The parameters of particles that are not of the material, and the coefficients of substeps."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pliant.actuators.muscle import StressActuator
from pliant.bodies import MaterialFields, parameters_of, positive_parameter
from pliant.core import Array, Param, finite_array
from pliant.materials import FRICTION
from pliant.mpm.grid import ParticleData, SubstepParameters
from pliant.mpm.particle_forces import ParticleForce, liquid_mass, with_values
from pliant.mpm.reference_grid import ReferenceGrid
from pliant.mpm.substeps import ParticleCoefficients
from pliant.robot import Robot
from pliant.robot.actuation import for_each_actuator
from pliant.robot.parameters import general_parameters, robot_with

if TYPE_CHECKING:
    from pliant.mpm.material_point import MaterialPoint


def stress_actuators(robot: Robot) -> dict[str, StressActuator]:
    """Return the actuators that act by stress, by name."""
    return {
        name: actuator
        for name, actuator in robot.actuators.items()
        if isinstance(actuator, StressActuator)
    }


def other_parameters(model: "MaterialPoint") -> dict[str, Param]:
    """Return all parameters that are not of the material, by name."""
    volume = Param(
        name="cells.volume", value=model.body.volumes(), unit="m^3", lower=0.0, upper=np.inf
    )
    found = [
        *general_parameters(model.robot, model.dim).values(),
        volume,
        *(
            FRICTION.parameter(f"contact{k}.friction", contact.friction)
            for k, contact in enumerate(model.robot.contacts)
        ),
        *(
            positive_parameter(f"actuators.{name}.strength", actuator.strength, "-")
            for name, actuator in stress_actuators(model.robot).items()
        ),
        *(
            replace(param, name=f"{force.group}.{param.name}")
            for force in model.particle_potentials
            for param in parameters_of(force.potential)
        ),
    ]
    return {param.name: param for param in found}


def default_coefficients(model: "MaterialPoint") -> ParticleCoefficients:
    """Return the coefficients for the values of the robot."""
    fields = model.body.fields
    data = model.body.particle_data(fields)
    return _coefficients(model, model.robot, fields, data, model.particle_potentials)


def coefficients_at(model: "MaterialPoint", p: Array) -> ParticleCoefficients:
    """Return the coefficients for parameters p (n_params,)."""
    others = model.variables.other_values(p)
    volumes = others.pop("cells.volume", None)
    values = {name: float(value[0]) for name, value in others.items()}
    fields = model.variables.fields(p)
    data = model.body.particle_data(fields, volumes)
    forces = [with_values(force, values) for force in model.particle_potentials]
    robot = robot_with(model.robot, values, model.body)
    return _coefficients(
        model, robot, fields, data, forces, frequency=model.frequency(forces, data.mass)
    )


def _coefficients(
    model: "MaterialPoint",
    robot: Robot,
    fields: MaterialFields,
    particle_data: ParticleData,
    forces: list[ParticleForce],
    frequency: float = 0.0,
) -> ParticleCoefficients:
    strengths = np.ones(model.n_controls)
    parts = for_each_actuator(model.robot, lambda actuator: None)
    for actuator, (_, part) in zip(robot.actuators.values(), parts, strict=True):
        if isinstance(actuator, StressActuator):
            strengths[part] = actuator.strength
    node_mass, liquid = np.zeros(0), liquid_mass(forces, model.space.n_dofs // model.dim)
    if not model.is_total:
        particle_data = particle_data._replace(mass=particle_data.mass + liquid)
    data = _cast(particle_data, model.precision)._replace(stress_row=model.stress_actuation.rows)
    sorted_data = data
    if isinstance(model.body, ReferenceGrid):
        sorted_data = ParticleData(*(part[model.body.order] for part in data))
        node_mass = model.body.node_masses(particle_data.mass) + liquid
    return ParticleCoefficients(
        fields=fields,
        particle_data=data,
        sorted_data=sorted_data,
        node_mass=node_mass,
        friction=np.array([contact.friction for contact in robot.contacts]),
        strengths=strengths,
        substep=_substep_parameters(model, robot),
        forces=forces,
        frequency=frequency,
    )


def _substep_parameters(model: "MaterialPoint", robot: Robot) -> SubstepParameters:
    gravity = np.zeros(3)
    if robot.gravity is not None:
        gravity[: model.dim] = finite_array("Gravity", robot.gravity, (model.dim,), "m/s^2")
    tau = model.dt / model.substeps
    return SubstepParameters(
        model.dim,
        model.cell,
        tau,
        float(robot.damping.stiffness),
        1.0 / (1.0 + tau * robot.damping.mass),
        *gravity.tolist(),
    )


def _cast(particle_data: ParticleData, precision: str) -> ParticleData:
    """Return the data in the precision of the substeps."""
    return ParticleData(
        *(part.astype(precision) if part.dtype == float else part for part in particle_data)
    )
