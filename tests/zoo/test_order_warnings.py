"""`check` warns if cells of order 1 lock, and the quoted numbers match simulations."""

import pytest

import pliant as pl
from pliant.geometry import ChamberedCylinder, Cylinder, Rectangle, Tube
from pliant.geometry.thickness import measure_thickness
from pliant.zoo.check import check
from pliant.zoo.order_warnings import DEFLECTION_RATIO, STIFFNESS_RATIO, order_warnings

BAR = pl.Box(size=(0.1, 0.02, 0.02))
CUBE = pl.Box(size=(0.02, 0.02, 0.02))
PNEUMATIC = ChamberedCylinder(
    radius=0.02, core=0.004, wall=0.002, rib=0.003, section=0.05, cap=0.004
)


def robot(shape, *, nu=0.3, order=1, **mesh):
    return pl.Robot(shape=shape, material=pl.Material(E=1e6, nu=nu), order=order, **mesh)


def warnings_of(*args, **kwargs):
    return order_warnings(robot(*args, **kwargs).body())


def deflection(cells, order):
    """Return the tip deflection [m] of a cantilever with `cells` cells across its thickness."""
    of = pl.Robot(
        shape=BAR,
        divisions=(5 * cells, cells, cells),
        order=order,
        material=pl.Material(E=1e6, nu=0.3),
        supports=[pl.Support(region="x-")],
        loads=[pl.SurfaceLoad(surface="x+", traction=(0, 0, -1))],
        effectors={"tip": pl.Effector(surface="x+")},
    )
    q = pl.equilibrium(pl.Quasistatic(of), []).x
    return of.effector_position("tip", q)[2] - of.effector_position("tip", of.body().rest)[2]


def test_quoted_deflections_match_simulation():
    true = deflection(3, 2)
    for cells, share in DEFLECTION_RATIO.items():
        assert deflection(cells, 1) / true == pytest.approx(share, abs=0.04)


def pad_energy(order, nu):
    """Return the energy [J] of a pad compressed between two bonded plates."""
    of = pl.Robot(
        shape=pl.Box(size=(0.02, 0.02, 0.01)),
        divisions=(4, 4, 2) if order == 1 else (8, 8, 4),
        order=order,
        material=pl.Material(E=1e6, nu=nu),
        supports=[
            pl.Support(region="z-"),
            pl.Support(region="z+", motion=lambda t: (0, 0, -1e-4)),
        ],
    )
    model = pl.Quasistatic(of)
    body = of.body()
    return body.energy(pl.equilibrium(model, []).x, body.fields)[0]


@pytest.mark.parametrize("nu", [0.45, 0.49])
def test_quoted_stiffening_matches_simulation(nu):
    assert pad_energy(1, nu) / pad_energy(2, nu) == pytest.approx(STIFFNESS_RATIO[nu], rel=0.15)


@pytest.mark.parametrize("cells", [1, 2, 3])
def test_slender_body_with_few_cells_across_warns(cells):
    (message,) = warnings_of(BAR, divisions=(5 * cells, cells, cells))
    assert f"order 1 and {cells} cell" in message
    assert "a thickness of 20 mm, which is too stiff in bending" in message
    assert f"deflects by {DEFLECTION_RATIO[cells]:.0%} of the true value. Use order = 2." in message


@pytest.mark.parametrize(
    ("shape", "mesh"),
    [
        (PNEUMATIC, {}),
        (Tube(outer=0.01, inner=0.008, length=0.1), {"divisions": (12, 1, 12)}),
        (Rectangle(size=(0.1, 0.02)), {"divisions": (10, 2)}),
    ],
)
def test_thin_walls_of_order_1_warn(shape, mesh):
    (message,) = warnings_of(shape, **mesh)
    assert "too stiff in bending" in message
    assert not warnings_of(shape, order=2, **mesh)


@pytest.mark.parametrize(
    ("shape", "mesh"),
    [
        (CUBE, {"divisions": (2, 2, 2)}),
        (BAR, {"divisions": (20, 4, 4)}),
        (BAR, {"divisions": (5, 1, 1), "order": 2, "nu": 0.49}),
        (Cylinder(radius=0.01, length=0.02), {"divisions": (2, 4)}),
    ],
)
def test_compact_fine_and_quadratic_bodies_do_not_warn(shape, mesh):
    assert warnings_of(shape, **mesh) == []


def test_nearly_incompressible_block_of_order_1_warns():
    (message,) = warnings_of(CUBE, divisions=(2, 2, 2), nu=0.49)
    assert "Poisson's ratio is 0.49 with cells of order 1" in message
    assert "up to 4 times. Use order = 2." in message


def test_thickness_of_flat_cell_mesh_counts_its_layers():
    found = measure_thickness(pl.Box(size=(0.1, 0.1, 0.003)).mesh(divisions=(4, 4, 3), order=1))
    across = found.length < 0.01
    assert found.length[across] == pytest.approx(0.003, rel=1e-6)
    assert set(found.cells[across]) == {3.0}


def test_check_of_robot_file_warns_of_order_1(tmp_path):
    path = tmp_path / "finger.toml"
    path.write_text(
        '[geometry]\nshape = "box"\nsize = [0.1, 0.02, 0.02]\ndivisions = [10, 2, 2]\norder = 1\n'
        '[material]\nE = 1e6\nnu = 0.3\n[[supports]]\nregion = "x-"\n'
    )
    (message,) = check(path).warnings
    assert "2 cells through a thickness of 20 mm" in message
    path.write_text(path.read_text().replace("order = 1", "order = 2"))
    assert check(path).warnings == []
