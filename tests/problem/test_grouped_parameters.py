"""Parameters whose entries share values in groups: one variable for each group."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.optimisation import ProblemObjective
from pliant.problem import Goal, Problem, Variable

MODELS = {
    "ImplicitEuler": lambda robot, **o: pl.ImplicitEuler(robot, dt=0.02, **o),
    "MaterialPoint": lambda robot, **o: pl.MaterialPoint(robot, dt=0.005, cell=0.05, **o),
}


def beam():
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.2, 0.1)),
        divisions=(4, 2),
        thickness=0.1,
        order=1,
        material=pl.Material(E=4e4, nu=0.35),
        supports=(pl.Support(region="x-"),),
        effectors={"tip": pl.Effector(surface="x+")},
        gravity=(0.0, -9.81),
    )


def problem(rule, variables, design=("cells.E", "cells.nu")):
    model = MODELS[rule](beam(), design=list(design))
    goal = Goal(effector="tip", target=(0.2, 0.05), time=4 * model.dt)
    return Problem(model=model, steps=4, terms=[goal], variables=variables)


def halves(rule):
    """The left and the right half of the beam, as groups."""
    return (MODELS[rule](beam()).body.cell_centres()[:, 0] > 0.1).astype(int)


@pytest.mark.parametrize("rule", MODELS)
def test_entries_of_a_group_have_its_value(rule):
    groups = halves(rule)
    layout = problem(rule, [Variable("cells.E", groups=groups)]).layout
    values = layout.values(layout.start + [0.1, -0.2])["cells.E"]
    np.testing.assert_allclose(values, 4e4 * np.exp(np.where(groups, -0.2, 0.1)), rtol=1e-12)


@pytest.mark.parametrize("rule", MODELS)
def test_gradient_of_groups_is_the_sum_of_the_gradient_of_their_entries(rule):
    groups = halves(rule)
    names = ["cells.E", "cells.nu"]
    single = ProblemObjective(problem(rule, [Variable(name, scale=1.0) for name in names]))
    grouped = ProblemObjective(
        problem(rule, [Variable(name, scale=1.0, groups=groups) for name in names])
    )
    g = single.gradient(single.start).gradient
    expected = np.concatenate([np.bincount(groups, part) for part in np.split(g, 2)])
    found = grouped.gradient(grouped.start).gradient
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.abs(found).min() > 0.0


def test_jacobian_of_groups_agrees_with_the_adjoint():
    objective = ProblemObjective(
        problem("ImplicitEuler", [Variable("cells.E", groups=halves("ImplicitEuler"))])
    )
    z = objective.start + [0.3, -0.1]
    found = objective.jacobian(z)
    expected = objective.gradient(z).gradient
    np.testing.assert_allclose(found.jacobian.T @ found.residuals, expected, rtol=1e-9)


def test_group_starts_at_the_mean_of_its_entries():
    groups, model = halves("ImplicitEuler"), MODELS["ImplicitEuler"](beam(), design=["cells.E"])
    E = np.geomspace(1e4, 1e5, len(groups))
    made = Problem(
        model=model,
        steps=1,
        terms=[Goal(effector="tip", target=(0.2, 0.05), time=0.02)],
        params=E,
        variables=[Variable("cells.E", groups=groups)],
    )
    means = [np.exp(np.log(E[groups == k]).mean()) for k in (0, 1)]
    np.testing.assert_allclose(made.layout.blocks[0].first, means, rtol=1e-12)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ([Variable("cells.E", groups=[0, 1])], "an integer for each"),
        ([Variable("cells.E", groups=np.zeros(64))], "an integer for each"),
        ([Variable("cells.E", groups=[[0], [0, 1]])], "an integer for each"),
        ([Variable("cells", groups=np.zeros(16, int))], "start, scales or groups to each"),
        ([Variable("cells.E", groups=np.zeros(16, int), lower=[1.0, 2.0])], "lower"),
    ],
)
def test_wrong_groups_are_clear_errors(variables, text, raises_clear_error):
    raises_clear_error(lambda: problem("ImplicitEuler", variables).layout, text)


def test_groups_of_controls_are_an_error():
    with pytest.raises(InputError, match="only parameters have them"):
        Variable("controls", groups=[0])
