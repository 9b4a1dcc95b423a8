"""What a saved optimisation of a problem belongs to, as JSON types."""

from collections.abc import Sequence
from typing import Any

from pliant.planners.model_summary import summarise
from pliant.problem import Problem
from pliant.problem.problem import ObservationTerm
from pliant.store.digest import digest_or_none


def problem_identity(problem: Problem) -> dict[str, Any]:
    """Return the sizes of a problem and digests of all that decides its values, scene by scene,
    except observations that are attached already, as those of measurements. The digest of a user's
    object without one is None."""
    scenes = problem.scene_problems
    models = {id(scene.model): summarise(scene.model) for scene in scenes}
    lists: dict[str, list[Sequence[Any]]] = {
        "terms": [[t for t in one.terms if not isinstance(t, ObservationTerm)] for one in scenes],
        "limits": [scene.limits for scene in scenes],
        "constraints": [scene.constraints for scene in scenes],
    }
    arrays = {
        "parameters": [scene.parameter_values for scene in scenes],
        "initial states": [scene.initial_state for scene in scenes],
        "fixed controls": [scene.fixed_controls for scene in scenes],
        "weights": problem.scene_weights,
    }
    return {
        "model": type(problem.model).__name__,
        "robots": [models[id(scene.model)].digest for scene in scenes],
        "dt": [models[id(scene.model)].dt for scene in scenes],
        "scenes": [scene.steps for scene in scenes],
        "variables": {block.name: block.first.size for block in problem.layout.blocks},
        **{name: [list(map(_short, part)) for part in found] for name, found in lists.items()},
        **{name: _short(value) for name, value in arrays.items()},
    }


def _short(value: Any) -> str | None:
    found = digest_or_none(value)
    return None if found is None else found[:16]
