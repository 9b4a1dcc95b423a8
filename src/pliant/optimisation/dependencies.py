"""Finds terms that depend on no variable of a problem."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pliant.core import Array, InputError
from pliant.planners.reverse_run import Adjoint, ReverseRun
from pliant.problem import AccumulatedCost, ControlCost, FunctionCost, Observation, Problem
from pliant.problem.smoothness import ParameterTerm
from pliant.problem.variables import CONTROLS

Term = tuple[int, int]  # the scene, or -1 for all scenes, and the number of the term


@dataclass(eq=False)
class Dependencies:
    """The terms of a problem that no gradient has been seen of yet."""

    problem: Problem
    pending: dict[Term, set[int]] = field(init=False)  # the scenes where each has no gradient

    def __post_init__(self) -> None:
        self.pending = {}
        for k, scene in enumerate(self.problem.scene_problems):
            for index, term in enumerate(scene.terms):
                if isinstance(term, ParameterTerm):
                    continue
                self.pending.setdefault(self.term(k, index), set())
        self.check_control_terms()
        self.check_parameter_terms()

    def term(self, k: int, index: int) -> Term:
        """Return a term of scene k. Those of the problem come first in every scene."""
        shared = not self.problem.scenes or index < len(self.problem.terms)
        return (-1, index) if shared else (k, index)

    def check_control_terms(self) -> None:
        """Raise InputError for a term of the controls alone if they are no variable."""
        for k, scene in enumerate(self.problem.scene_problems):
            for index, parts in enumerate(scene.attached_terms):
                if parts and self._of_controls(parts):
                    if CONTROLS in scene.variable_names:
                        self.pending.pop(self.term(k, index), None)
                    elif self.term(k, index) in self.pending:
                        self.record_independent(self.term(k, index), k)

    def check_parameter_terms(self) -> None:
        """Raise InputError for a term of a parameter that is no variable."""
        problem = self.problem
        terms = [k for k, term in enumerate(problem.terms) if isinstance(term, ParameterTerm)]
        targets = [block.target for block in problem.layout.blocks if block.kind == "params"]
        for index, cost in zip(terms, problem.parameter_costs, strict=True):
            of = cost.block
            if not any(t.start < of.stop and of.start < t.stop for t in targets):
                raise InputError(self._message((-1, index)))

    @staticmethod
    def _of_controls(parts: tuple[object, ...]) -> bool:
        return all(
            isinstance(part, ControlCost)
            or (isinstance(part, AccumulatedCost) and not part.observations and not part.functions)
            for part in parts
        )

    def record_independent(self, term: Term, k: int) -> None:
        """Note that a term has no gradient in scene k. Raises InputError if that is so in all."""
        if term not in self.pending:
            return
        self.pending[term].add(k)
        scenes = range(len(self.problem.scene_problems)) if term[0] < 0 else [term[0]]
        if self.pending[term] >= set(scenes):
            raise InputError(self._message(term))

    def _message(self, term: Term) -> str:
        return (
            f"The term {self.label(term)} does not depend on any variable of the problem "
            f"({', '.join(self.problem.variable_names)}); omit it, or name a variable that it "
            "depends on."
        )

    def label(self, term: Term) -> str:
        """Return the name of a term in messages."""
        k, index = term
        made = self.problem.scene_problems[max(k, 0)].terms[index]
        inner = getattr(made, "term", made)
        about = [getattr(inner, key, None) for key in ("effector", "part", "name")]
        named = next((f" of '{value}'" for value in about if isinstance(value, str)), "")
        number = f"{index + 1} ({type(made).__name__}{named})"
        return number if k < 0 else f"{number} of scene {self.problem.scene_name(k)}"

    def indices(self, k: int) -> list[int]:
        """Return the terms of scene k to be tested."""
        count = len(self.problem.scene_problems[k].terms)
        return [index for index in range(count) if self.term(k, index) in self.pending]

    def adjoints(self, run: ReverseRun, k: int) -> list[Adjoint]:
        """Return an adjoint for each term to be tested, with generic derivatives by its
        observations: those of its losses vanish at a goal that is reached."""
        return [self._adjoint(run, run.problem.attached_terms[index]) for index in self.indices(k)]

    def _adjoint(self, run: ReverseRun, parts: tuple[object, ...]) -> Adjoint:
        inner = [
            one
            for part in parts
            for one in (
                (*part.observations, *part.functions)
                if isinstance(part, AccumulatedCost)
                else (part,)
            )
        ]
        observed = {id(one) for one in inner if isinstance(one, Observation)}
        functions = {id(one) for one in inner if isinstance(one, FunctionCost)}
        rng = np.random.default_rng(0)
        out = run.adjoint(
            {
                index: rng.standard_normal(one.size)
                for index, one in enumerate(run.observations)
                if id(one) in observed
            }
        )
        out.functions = {
            index: 1.0 for index, one in enumerate(run.functions) if id(one) in functions
        }
        return out

    def record(self, k: int, adjoints: Sequence[Adjoint], gradients: Sequence[Array]) -> None:
        """Note the gradients of the terms of scene k. Raises InputError for a term without one."""
        for index, adjoint, g in zip(self.indices(k), adjoints, gradients, strict=True):
            term = self.term(k, index)
            if g.any():
                self.pending.pop(term, None)
            elif adjoint.seeds or adjoint.seen:
                self.record_independent(term, k)
