"""The Diamond robot: a valid mesh, symmetry, workspace, and stable steps at full tension."""

from itertools import pairwise

import numpy as np
import pytest

import pliant as pl

HEIGHT = 0.125  # [m] the tip at rest


@pytest.fixture(scope="module")
def standing():
    """Return (model, equilibrium under gravity)."""
    model = pl.Quasistatic(pl.robots.diamond(along=12))
    return model, pl.equilibrium(model, np.zeros(4)).x


def tip(model, x):
    return model.robot.effector_position("tip", model.space.position(x))


@pytest.mark.parametrize(
    ("options", "nodes"),
    [({}, 702), ({"along": 45}, 1638), ({"across": 4, "along": 12}, 2 * 125 + 4 * 25 * 11)],
)
def test_limbs_and_blocks_form_one_valid_mesh(options, nodes):
    mesh = pl.robots.diamond(**options).mesh()
    quality = pl.geometry.mesh_quality(mesh)
    assert mesh.n_points == nodes
    assert quality.closed
    assert not quality.warnings()
    assert sum(len(cells) for cells in mesh.regions.values()) == mesh.n_cells
    assert mesh.points[mesh.nodes("tip face"), 2] == pytest.approx(HEIGHT, abs=1e-12)
    legs, blocks = (
        8 * 0.025 * 0.025 * 0.0845,
        2 * 0.025**3,
    )  # volume of a slanted limb: horizontal length times vertical section
    assert quality.total_volume == pytest.approx(legs + blocks, rel=1e-9)


def test_diamond_sags_vertically_under_gravity(standing):
    model, x = standing
    x, y, z = tip(model, x)
    assert abs(x) < 1e-9
    assert abs(y) < 1e-9
    assert HEIGHT - 0.015 < z < HEIGHT


def test_cables_move_the_tip_with_fourfold_symmetry(standing):
    model, x0 = standing
    full = model.robot.control_limits()[1][0]
    moves = [
        tip(model, pl.equilibrium(model, full * np.eye(4)[k], x0=x0).x) - tip(model, x0)
        for k in range(4)
    ]
    assert np.linalg.norm(moves[0][:2]) > 0.02
    assert abs(moves[0][1]) < 1e-8
    rotation = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    for move, following in pairwise(moves):
        np.testing.assert_allclose(rotation @ move, following, rtol=0.0, atol=1e-7)


def test_four_cables_lift_the_tip(standing):
    model, x0 = standing
    lifted = tip(model, pl.equilibrium(model, np.full(4, 5.0), x0=x0).x) - tip(model, x0)
    assert lifted[2] > 0.005
    np.testing.assert_allclose(lifted[:2], 0.0, atol=1e-8)


@pytest.mark.parametrize("pulled", [[0], [0, 1], [0, 1, 2, 3]])
def test_semi_implicit_steps_under_full_tension_converge_to_equilibrium(standing, pulled):
    still, x0 = standing
    model = pl.SemiImplicit(still.robot, dt=0.01)
    u = np.zeros(4)
    u[pulled] = model.control_limits()[1][pulled]
    end = pl.simulate(model, np.tile(u, (120, 1)), x0=model.state(x0)).states[-1]
    wanted = tip(still, pl.equilibrium(still, u, x0=x0).x)
    np.testing.assert_allclose(tip(model, end), wanted, atol=2e-4)


@pytest.mark.parametrize("options", [{"across": 3}, {"across": 0}, {"along": 2}])
def test_invalid_lattice_divisions_are_rejected(options):
    with pytest.raises(pl.InputError, match="even number across"):
        pl.robots.diamond(**options)
