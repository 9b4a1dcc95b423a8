"""What a trained controller belongs to: its robot, its observer and the layout of its weights."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from pliant.core import Array, Dynamics, InputError, Refinable
from pliant.learning.closed_loop import ClosedLoop
from pliant.learning.memory import AnyController
from pliant.learning.mlp import MLP
from pliant.planners.model_summary import different_parts, summarise
from pliant.store.digest import digest_or_none

# fields of a controller that only make its first weights
FIRST_WEIGHTS = ("weights", "seed", "output_gain")


def identity(loop: ClosedLoop) -> dict[str, Any]:
    """Return a description of a loop as JSON types. The cell of a surrogate is not part of it."""
    model = summarise(loop.model)
    return {
        "robot": model.robot,
        "digest": model.digest,
        "dt": model.dt,
        "controls": list(model.columns),
        "observer": {
            "size": 0 if loop.attached is None else loop.attached.size,
            "digest": None if loop.observer is None else digest_or_none(loop.observer),
        },
        "controller": layout(loop.controller),
    }


def accuracy(model: Dynamics) -> dict[str, Any]:
    """Return what decides the values of a model of the same robot, as JSON types: its class, its
    method and sizes, and the cell and the exact map of its surrogate."""
    made: Any = model
    found: dict[str, Any] = {"class": type(model).__name__}
    for name in ("method", "points", "cell", "substeps", "precision"):
        value = getattr(made, name, None)
        if isinstance(value, int | float | str):
            found[name] = value
    if isinstance(model, Refinable):
        found["cell"] = np.asarray(model.surrogate.size, float).tolist()
        found["exact map"] = str(model.surrogate.corners.store.key)
    return {f"{name} of the model": value for name, value in found.items()}


def layout(controller: AnyController) -> dict[str, Any]:
    """Return the class, the sizes, the blocks of weights and the settings of a controller."""
    blocks = controller.params.blocks
    settings: dict[str, Any] = {}
    made: Any = controller
    for name in [field.name for field in fields(made)] if is_dataclass(made) else []:
        known = (*FIRST_WEIGHTS, *(block.name for block in blocks), "n_inputs", "n_controls")
        if name not in known:
            settings[name] = _plain(getattr(controller, name))
    return {
        "type": type(controller).__name__,
        "n_inputs": int(controller.n_inputs),
        "n_controls": int(controller.n_controls),
        "blocks": [[block.name, int(block.value.size)] for block in blocks],
        "settings": settings,
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON types; the digest of one that has no JSON types."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple) and all(isinstance(x, int | float | str) for x in value):
        return list(value)
    return digest_or_none(value)


def check_identity(saved: Mapping[str, Any], loop: ClosedLoop, where: str) -> None:
    """Raise InputError if a saved controller does not belong to a loop."""
    here = identity(loop)
    if saved["controls"] != here["controls"]:
        raise InputError(
            f"{where} was trained for {saved['robot']} with the controls "
            f"{', '.join(map(str, saved['controls']))}, but this model of {here['robot']} has "
            f"{', '.join(here['controls'])}. Give the loop of the training."
        )
    if saved["dt"] != here["dt"]:
        raise InputError(
            f"{where} was trained with steps of {saved['dt']:g} s, but this model has steps of "
            f"{here['dt']:g} s. Make it with dt={saved['dt']!r}."
        )
    if parts := different_parts(saved["digest"], here["digest"]):
        raise InputError(
            f"{where} was trained for another {saved['robot']}, which differs from this one in: "
            f"{parts}. Give the same robot."
        )
    if saved["observer"]["size"] != here["observer"]["size"] or _differ(
        saved["observer"]["digest"], here["observer"]["digest"]
    ):
        raise InputError(
            f"{where} was trained with another observer, of {saved['observer']['size']} numbers; "
            f"this one gives {here['observer']['size']}. Give the observer of the training."
        )
    for name, value in here["controller"].items():
        if saved["controller"][name] != value:
            raise InputError(
                f"{where} has weights of another controller: its {name} is "
                f"{str(saved['controller'][name])[:80]}, here it is {str(value)[:80]}. Give the "
                "controller of the training."
            )


def _differ(saved: str | None, here: str | None) -> bool:
    return saved is not None and here is not None and saved != here


def saved_controller(saved: Mapping[str, Any], weights: Array) -> MLP | None:
    """Return the controller of a saved layout if it is an MLP; the others need their loop.

    Raises InputError, TypeError or KeyError for a damaged layout.
    """
    if saved["type"] != "MLP":
        return None
    settings = saved["settings"]
    return MLP(
        n_inputs=saved["n_inputs"],
        lower=settings["lower"],
        upper=settings["upper"],
        hidden=tuple(settings["hidden"]),
        activation=settings["activation"],
        weights=weights,
    )
