"""The model of a body inside closed loops and shape models, and its cells."""

from dataclasses import replace
from typing import Any

from pliant.bodies import Solid
from pliant.core import Array, Dynamics, InputError
from pliant.design.shape_model import ShapeModel
from pliant.mpm.particles import Particles
from pliant.mpm.reference_grid import ReferenceGrid


def body_model(model: Dynamics, p: Array | None = None) -> Any:
    """Return the model of a robot's body: without its controller, and with the shape of the
    parameters p (n_params,), by default its own."""
    while not isinstance(model, ShapeModel) and isinstance(
        inner := getattr(model, "model", None), Dynamics
    ):
        model, p = inner, None if p is None else p[len(p) - inner.params.size :]
    if isinstance(model, ShapeModel):
        return model.at(p)
    return model


def with_body_model(model: Dynamics, made: Dynamics) -> Dynamics:
    """Return the model with another model of its body."""
    inner: Any = getattr(model, "model", None)
    if not isinstance(inner, Dynamics):
        return made
    outer: Any = model
    return replace(outer, model=with_body_model(inner, made))


def body_of(model: Dynamics) -> Solid | Particles:
    """Return the cells or particles of a model. Raises InputError if it has none."""
    body = getattr(body_model(model), "body", None)
    if isinstance(body, ReferenceGrid):
        body = body.particles
    if not isinstance(body, Solid | Particles):
        raise InputError(
            f"{type(model).__name__} has no cells or particles; take a model such as "
            "ImplicitEuler or MaterialPoint."
        )
    return body
