"""RobotDesign: the result of co-design, its robot, printable materials and files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core import Array, InputError, Status, is_integer, quoted
from pliant.design.design_body import body_model, body_of
from pliant.design.design_files import write_fields, write_material_surfaces
from pliant.design.gradient_checks import (
    GradientCheck,
    check_result,
    gradient_warnings,
    simulated_scene,
)
from pliant.design.material_budget import (
    FIELD,
    MaterialBudget,
    budget_problem,
    design_fields,
    material_budget,
    robot_of_budget,
)
from pliant.dynamics import Rollout
from pliant.optimisation import OptimisationMethod, OptimisationResult, ProblemObjective, optimise
from pliant.problem import Problem
from pliant.progress import Progress
from pliant.result_reports import notebook_html, write_report
from pliant.robot import Robot
from pliant.store import check_path
from pliant.store.files import translate_write_errors


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotDesign:
    """The result of `codesign`: the best variables, and the robot that they describe.

    `report` writes a page with plots, `export` files for printing and for other programs, and
    `with_materials` reduces the fields to a few printable materials.
    """

    result: OptimisationResult
    problem: Problem
    checks: tuple[GradientCheck, ...] = ()
    budget: MaterialBudget | None = None  # None: fields have a value for each cell

    def __repr__(self) -> str:
        return (
            f"<RobotDesign of {body_model(self.problem.model).robot.name}: {self.result.summary()}>"
        )

    def _repr_html_(self) -> str:
        return notebook_html(self)

    @property
    def value(self) -> float:
        """The objective of the best variables."""
        return self.result.value

    @property
    def values(self) -> Mapping[str, Array]:
        """The best variables by name, in their units."""
        return self.result.values

    @property
    def status(self) -> Status:
        return self.result.status

    @property
    def params(self) -> Array:
        """The parameters (n_params,) of the model."""
        return self.problem.layout.params(self.result.z)

    @property
    def fields(self) -> Mapping[str, Array]:
        """The fields of the material (n,) by name: a value for each cell or particle."""
        z = self.result.z
        return {one.name: one.value(one.physical(z)) for one in design_fields(self.problem)}

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about gradients, and the reason of a failed start."""
        failed = self.result.best.failed
        start = (f"The first design cannot be simulated: {failed}",) if failed else ()
        return (*start, *gradient_warnings(self.checks))

    @property
    def robot(self) -> Robot:
        """The designed robot, for any model and planner.

        Raises InputError for fields with a value for each cell; `with_materials` first reduces them
        to a few materials.
        """
        if self.budget is not None:
            return robot_of_budget(self.problem, self.result.z, self.budget)
        if self.fields:
            raise InputError(
                "The design has a material for each cell, but a robot has one for each region. "
                "Take design.with_materials(3).robot, or simulate the design itself."
            )
        p = self.params
        model = body_model(self.problem.model, p)
        names = [block.name for block in model.params.blocks]
        values = self.problem.model.params.split(p)
        own = np.concatenate([np.zeros(0), *(values[name] for name in names)])
        made: Robot = model.robot_with_params(own)
        return made

    def simulate(self, scene: int = 0) -> Rollout:
        """Return the motion of the best design in a scene. Raises StepError if it fails."""
        count = len(self.problem.scene_problems)
        if not is_integer(scene) or not 0 <= scene < count:
            raise InputError(
                f"There is no scene {quoted(scene)}; give a number from 0 to {count - 1}."
            )
        return simulated_scene(ProblemObjective(self.problem), scene, self.result.z)

    def with_materials(
        self,
        count: int,
        *,
        iterations: int = 20,
        method: str | OptimisationMethod = "adam",
        seed: int = 0,
        progress: Progress | bool | None = None,
    ) -> "RobotDesign":
        """Return the design with at most `count` materials: the cells are clustered by their
        values, and all variables are then optimised again, with one value for each material.
        """
        budget = material_budget(self.problem, self.result.z, count, seed)
        problem, start = budget_problem(self.problem, self.result.z, budget)
        objective = ProblemObjective(problem)
        result = optimise(
            objective,
            method,
            iterations=iterations,
            start=start,
            seed=seed,
            progress=progress,
        )
        checks = (check_result(objective, result),)
        return RobotDesign(result=result, problem=problem, checks=checks, budget=budget)

    # Text and files

    def show(self) -> None:
        """Print the status, the variables and the warnings."""
        print(self.result.summary())
        for name, values in self.values.items():
            low, high = float(np.min(values)), float(np.max(values))
            print(f"{name}: {low:.4g}" + ("" if low == high else f" to {high:.4g}"))
        for note in self.notes:
            print(note)

    def report(self, folder: str | Path, *, title: str | None = None, small: bool = False) -> Path:
        """Write report.html with plots, an animation of the best design and result.json into a
        folder. Return the path of the page. `small` draws a smaller and shorter animation."""
        return write_report(self, folder, title=title, small=small)

    def export(self, folder: str | Path) -> list[Path]:
        """Write the design for other programs into a folder, and return the paths.

        fields.vtu has the fields of the material. With a budget of materials there are an STL file
        [m] for each material and robot.toml; so is robot.toml for a design without fields.
        """
        home = check_path("The folder", folder)
        if home.exists() and not home.is_dir():
            raise InputError(f"{home} is a file, and an export needs a folder. Give another.")
        with translate_write_errors(home, 0):
            home.mkdir(parents=True, exist_ok=True)
        written = []
        if fields := self._exported_fields():
            points = body_of(self.problem.model).cell_centres()
            written.append(write_fields(home / "fields.vtu", points, fields))
        if self.budget is not None:
            model: Any = body_model(self.problem.model, self.params)
            written += write_material_surfaces(
                home, model.body.mesh, self.budget.labels, self.budget.names, model.robot.thickness
            )
        if self.budget is not None or not self.fields:
            self.robot.save(home / "robot.toml")
            written.append(home / "robot.toml")
        return written

    def _exported_fields(self) -> dict[str, Array]:
        fields = {name.removeprefix(FIELD): values for name, values in self.fields.items()}
        if self.budget is not None:
            fields["material"] = self.budget.entries
        return fields
