"""The parts of the initial state that a variable of a problem changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pliant.core import Array, InputError, Space
from pliant.problem.variables import Variable

if TYPE_CHECKING:
    from pliant.problem.problem import Problem


@dataclass(frozen=True, kw_only=True)
class ChangedParts:
    """The parts of the initial state that a variable changes."""

    space: Space
    names: tuple[str, ...]
    first: int  # where they start in a change of the state

    @property
    def quaternions(self) -> list[str]:
        return [name for name in self.names if name in self.space.quaternions]

    def size(self, name: str) -> int:
        """Return the number of entries of a part of the state."""
        at = self.space.parts.index(name)
        return self.space.starts[at + 1] - self.space.starts[at]

    def typical_sizes(self, x: Array) -> list[float]:
        """Return the largest entry of each part of a state, and 1 for zeros and rotations."""
        parts = self.space.split(x)
        largest = [float(np.abs(getattr(parts, name)).max(initial=0.0)) for name in self.names]
        return [
            1.0 if name in self.space.quaternions else most or 1.0
            for name, most in zip(self.names, largest, strict=True)
        ]


def changed_parts(space: Space, variable: Variable) -> ChangedParts:
    """Return the parts of the state that a variable names. Raises InputError for an unknown part,
    and for bounds or a start of a quaternion."""
    part = variable.name.partition(".")[2]
    if part and part not in space.parts:
        raise InputError(
            f"There is no variable '{variable.name}': the state has the parts "
            f"{', '.join(space.parts)}."
        )
    before = space.parts[: space.parts.index(part)] if part else ()
    every = ChangedParts(space=space, names=space.parts, first=0)
    first = sum(3 if name in space.quaternions else every.size(name) for name in before)
    found = ChangedParts(space=space, names=(part,) if part else space.parts, first=first)
    given = any(v is not None for v in (variable.lower, variable.upper, variable.start))
    if found.quaternions and given:
        raise InputError(
            f"The variable '{variable.name}' has the quaternion '{found.quaternions[0]}', for "
            "which there are no bounds and no start; give x0 to the problem or its scenes."
        )
    return found


def common_values(problem: "Problem", variable: Variable, scenes: Sequence[int]) -> Array:
    """Return the part of the initial state that scenes have in common. Raises InputError if they
    start from different states."""
    part = variable.name.partition(".")[2]
    values = []
    for scene in (problem.scene_problems[k] for k in scenes):
        x = scene.initial_state
        values.append(np.asarray(getattr(scene.model.space.split(x), part)) if part else x)
    if any(not np.array_equal(values[0], other) for other in values[1:]):
        raise InputError(
            f"The variable '{variable.name}' is shared, but the scenes start from different "
            "states; give them the same x0, or take scenes='each'."
        )
    return values[0]
