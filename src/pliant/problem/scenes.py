"""Scenes: the trajectories of a problem."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from numpy.typing import ArrayLike

from pliant.argument_checks import check_steps
from pliant.core import Dynamics, InputError, quoted, require_kind, require_positive
from pliant.problem.terms import Term


@dataclass(frozen=True, eq=False)
class Scene:
    """One trajectory of a problem, such as a recording, a load case or a start.

    Parameters
    ----------
    steps : number of time steps; None for that of the problem
    terms : objective terms, in addition to those of the problem
    controls : fixed controls (steps, n_controls); None if they are variables. If controls are no
        variable of the problem, None stands for the neutral controls.
    x0 : initial state (n_state,); None for that of the problem
    model : a Dynamics with the same parameters, such as other loads or another time step; None
        for that of the problem
    weight : factor on the objective of the scene, positive
    name : name in messages and results; "" for the number of the scene
    previous_control : control before the first step; None for that of the problem

    Raises InputError for other values.

    >>> import numpy as np, pliant as pl
    >>> pushed = pl.problem.Scene(steps=5, controls=np.ones((5, 2)), name="pushed")
    """

    steps: int | None = None
    _: KW_ONLY
    terms: Sequence[Term] = ()
    controls: ArrayLike | None = None
    x0: ArrayLike | None = None
    model: Dynamics | None = None
    weight: float = 1.0
    name: str = ""
    previous_control: ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.steps is not None:
            check_steps(self.steps)
        require_kind("The terms of a scene", self.terms, (list, tuple), "give a list")
        require_kind("The name of a scene", self.name, str, "give a text")
        require_positive(f"The weight of the scene {quoted(self.name)}", self.weight, "")
        if self.model is not None:
            require_kind(
                "The model of a scene", self.model, Dynamics, "make one with ImplicitEuler(...)"
            )


def check_same_parameters(label: str, model: Dynamics, scene: Dynamics) -> None:
    """Raise InputError unless the model of a scene has the parameters of the problem's model."""
    ours, theirs = (
        [(block.name, block.value.size) for block in m.params.blocks] for m in (model, scene)
    )
    if ours != theirs:
        raise InputError(
            f"The model of {label} has the parameters {_names(theirs)}, but that of the problem "
            f"has {_names(ours)}; make both with the same design parameters."
        )


def _names(blocks: list[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ({size})" for name, size in blocks) or "none"
