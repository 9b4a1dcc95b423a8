"""`pliant papers 003`: all methods of the figures converge to one optimum; unknown papers raise."""

import numpy as np
import pytest

from pliant.bodies import PointMass
from pliant.core import InputError
from pliant.papers import paper003, papers, reproduce
from pliant.papers.explicit_integration import ExplicitRod, rotated_rod
from pliant.robot import Robot


def test_newton_ddp_and_ipopt_converge_to_one_optimum():
    plots, notes = paper003.figure_nine(quick=True)
    ends = {name: float(costs[-1]) for name, (_, costs) in plots[0].series.items()}
    assert set(ends) == {"Newton", "DDP (iLQR)", "Ipopt", "Ipopt, second order"}
    assert max(ends.values()) - min(ends.values()) < 1e-4 * min(
        ends.values()
    )  # the tolerance of the figure
    _, violation = plots[1].series["Ipopt"]
    assert (
        violation.max() > 1e3 * violation[-1]
    )  # the dynamics are violated during the iterations and satisfied at the end
    assert all(name in notes[-1] for name in ends)


def test_collocation_from_rest_violates_the_dynamics_before_it_converges():
    plots, notes = paper003.figure_nine_at_full_size(quick=True)
    _, violation = plots[0].series["largest residual force [N]"]
    assert violation[0] < 1e-6 * violation.max()  # the guess is a simulation
    assert violation[-1] > 1e-6 * violation.max()
    assert "5 iterations" in notes[0]


def test_problem_sizes_match_table_1():
    table = {
        "pendulum-1": (1, 60, 0.667),
        "pendulum-2": (1, 60, 1.5),
        "pendulum-4": (1, 100, 1.667),
        "whip-1": (68, 40, 1.0),
        "whip-2": (68, 40, 0.889),
        "cloth-thin": (120, 40, 0.8),
        "cloth-toss": (160, 40, 1.0),
        "cloth-flip": (160, 40, 1.0),
    }
    for name, (nodes, steps, time) in table.items():
        problem = paper003.problem(name, quick=False)
        assert problem.model.space.n_dofs == 3 * nodes
        assert problem.steps == steps
        assert problem.steps * problem.model.dt == pytest.approx(time)
    rod = paper003.problem("whip-1", quick=False).model.robot.body().fields
    mu, lam = rod.E / (2 * (1 + rod.nu)), rod.E * rod.nu / ((1 + rod.nu) * (1 - 2 * rod.nu))
    np.testing.assert_allclose(
        [mu[0], lam[0], rod.density[0]], [21149.0, 98696.0, 34.722], rtol=1e-9
    )


def test_largest_frequency_of_the_rod_limits_symplectic_steps():
    """Explicit Euler fails with every step, symplectic Euler above 2 / omega only."""
    rod = rotated_rod()
    limit = 2.0 / rod.largest_frequency()
    stable, intact = rod.largest_displacements(0.5 * limit, symplectic=True)
    assert intact
    assert stable.max() < 0.24  # [m] half the length of the rod
    for dt, symplectic in ((1.05 * limit, True), (0.025, False), (0.5 * limit, False)):
        sizes, intact = rod.largest_displacements(dt, symplectic=symplectic)
        assert not intact
        assert len(sizes) < 20


def test_symplectic_steps_of_a_free_fall_match_their_closed_form():
    """After n steps a mass has fallen by g h^2 n (n + 1) / 2."""
    robot = Robot(shape=PointMass(points=[[0.0, 0.0]]), gravity=(0.0, -9.81))
    mass = ExplicitRod(robot=robot, controls=np.zeros(0))
    sizes, intact = mass.largest_displacements(1e-3, symplectic=True)
    assert intact
    assert sizes[-1] == pytest.approx(0.5 * 9.81 * (1.0 + 1e-3), rel=1e-12)


def test_unknown_paper_raises(tmp_path):
    assert "003" in papers()
    with pytest.raises(InputError, match=r"paper '033'.*003"):
        reproduce("033", out=tmp_path)
