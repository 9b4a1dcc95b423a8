"""Co-design: materials and controls together, groups, few materials, stable substeps and files."""

from dataclasses import replace

import meshio
import numpy as np
import pytest
import trimesh

import pliant as pl
from pliant.core import InputError
from pliant.design import field_groups
from pliant.design.gradient_checks import check_gradient, gradient_warnings
from pliant.design.stable_design import with_stable_substeps
from pliant.geometry.boundary import is_closed
from pliant.optimisation import ProblemObjective
from pliant.problem import Effort, FinalCost, Goal, Problem, Variable

TARGET = (0.19, 0.04)


def beam(**options):
    parts = {
        "shape": pl.geometry.Rectangle(size=(0.2, 0.04)),
        "divisions": (8, 2),
        "thickness": 0.04,
        "order": 1,
        "material": pl.Material(E=4e5, nu=0.3, density=1000.0),
        "supports": (pl.Support(region="x-"),),
        "effectors": {"tip": pl.Effector(surface="x+")},
        "actuators": {"force": pl.actuators.Thrust(point=(0.2, 0.02), limits=(-2.0, 2.0))},
        "name": "beam",
        **options,
    }
    return pl.Robot(**parts)


def static(design, **options):
    return pl.Quasistatic(beam(**options), design=design)


TERMS = (Goal(effector="tip", target=TARGET, weight=1e4), Effort(weight=1.0))
E_FIELD = Variable("cells.E", lower=1e5, upper=1e6)


def field_design(**options):
    return pl.codesign(
        static(["cells.E"]),
        TERMS,
        [E_FIELD, "controls"],
        steps=1,
        **{"method": "lbfgsb", "iterations": 15, "checks": 1, **options},
    )


@pytest.fixture(scope="module")
def design():
    return field_design()


# The optimum


def test_designed_stiffness_is_the_best_of_a_scan_with_planned_forces():
    found = pl.codesign(
        static(["body.E"]),
        TERMS,
        [Variable("body.E", lower=1e5, upper=1e6), "controls"],
        steps=1,
        method="lbfgsb",
        tolerance=1e-12,
    )
    scan = np.geomspace(1e5, 1e6, 9)
    costs = [
        pl.plan(pl.Quasistatic(beam(material=pl.Material(E=E, nu=0.3))), list(TERMS), steps=1).cost
        for E in scan
    ]
    assert found.value <= min(costs) * (1.0 + 1e-6)
    assert found.values["body.E"][0] == pytest.approx(scan[int(np.argmin(costs))], rel=0.35)


def test_field_is_at_least_as_good_as_one_stiffness(design):
    assert design.value < 0.999 * design.result.history[0].value
    assert np.ptp(design.fields["cells.E"]) > 0.0
    run = design.simulate()
    np.testing.assert_array_equal(run.controls, design.values["controls"])


def test_stiffest_field_is_at_the_upper_bound():
    loaded = static(["cells.E"], loads=[pl.PointLoad(point=(0.2, 0.02), force=(0.0, -0.5))])
    found = pl.codesign(
        loaded,
        [Goal(effector="tip", target=(0.2, 0.02), weight=1e4)],
        [replace(E_FIELD, groups=field_groups(loaded, by=0.05))],
        steps=1,
        controls=np.zeros((1, 2)),
        method="lbfgsb",
    )
    np.testing.assert_allclose(found.fields["cells.E"], 1e6, rtol=1e-5)


# Groups


def test_mirrored_cells_share_a_group():
    groups = field_groups(static(["cells.E"]), by=0.02, mirror="y")
    mesh = beam().mesh()
    below = mesh.points[mesh.corners].mean(axis=1)[:, 1] < 0.02
    assert set(groups[below]) == set(groups[~below])
    assert len(np.unique(groups)) == 10  # columns of 2 cm; the band above the middle line


def test_groups_by_mesh_are_those_of_the_finite_elements():
    particles = pl.MaterialPoint(beam(), dt=0.005, cell=0.02, design=["cells.E"])
    groups = field_groups(particles, by="mesh")
    assert len(groups) == particles.body.n_particles
    owners = particles.body.samples.cells
    for k in np.unique(groups):
        assert len(np.unique(owners[groups == k])) == 1


@pytest.mark.filterwarnings("ignore:A body with one particle")
def test_particles_on_the_plane_of_symmetry_keep_their_own_group():
    block = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.2, 0.3)),
        divisions=(2, 3),
        material=pl.Material(E=1e5, nu=0.3),
    )
    model = pl.MaterialPoint(block, dt=0.001, cell=0.1, per_cell=1, design=["cells.E"])
    y = model.body.cell_centres()[:, 1]
    plane = np.sort(y)[len(y) // 2]
    middle = y == plane
    assert middle.sum() == 2  # of three rows
    groups = field_groups(model, mirror="y", centre=np.nextafter(plane, 1.0))
    assert not set(groups[middle]) & set(groups[~middle])


def test_groups_of_the_total_transfer_are_those_of_its_particles():
    made = [
        pl.MaterialPoint(beam(), dt=0.005, cell=0.02, design=["cells.E"], transfer=transfer)
        for transfer in ("updated", "total")
    ]
    updated, total = (field_groups(model, by=0.05) for model in made)
    np.testing.assert_array_equal(updated, total)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"by": "cell"}, "There are no groups by 'cell'"),
        ({"by": -1.0}, "positive finite"),
        ({"mirror": "z"}, "take one of x, y"),
        ({"mirror": "x", "centre": 0.05}, "not symmetric about x"),
        ({"mirror": "x", "centre": 1.0}, "no cells on one of its sides"),
        ({"centre": 0.1}, "no axis of symmetry"),
        ({"by": np.nan}, "positive finite"),
        ({"by": np.array([0.1, 0.2])}, "must be a number"),
    ],
)
def test_wrong_groups_are_clear_errors(options, text, raises_clear_error):
    raises_clear_error(lambda: field_groups(static(["cells.E"]), **options), text)


# Few materials and files


def test_few_materials_describe_a_robot_with_the_same_motion(design):
    few = design.with_materials(3, iterations=5, method="lbfgsb")
    assert len(np.unique(few.fields["cells.E"])) <= 3
    assert few.value >= design.value
    robot = few.robot
    assert sorted(robot.material) == ["material 1", "material 2", "material 3"]
    again = pl.simulate(pl.Quasistatic(robot), few.values["controls"])
    np.testing.assert_allclose(again.states[-1], few.simulate().states[-1], atol=1e-9)


def test_robot_of_few_materials_keeps_the_springs_of_its_contacts():
    """By default they follow Young's modulus, which the design changes."""
    robot = beam(
        gravity=(0.0, -9.81),
        actuators={},
        contacts=[pl.Contact(obstacle=pl.plane((0.0, 1.0)))],
    )
    found = pl.codesign(
        pl.ImplicitEuler(robot, dt=0.02, design=["cells.E"]),
        [Goal(effector="tip", target=(0.2, 0.02), weight=1e4)],
        [E_FIELD],
        steps=3,
        iterations=3,
        checks=0,
        method="lbfgsb",
    ).with_materials(1, iterations=1)
    assert abs(found.robot.material["material 1"].E / 4e5 - 1.0) > 0.2
    again = pl.simulate(pl.ImplicitEuler(found.robot, dt=0.02), np.zeros((3, 0)))
    np.testing.assert_allclose(again.states, found.simulate().states, atol=1e-9)


def test_few_materials_are_checked_by_themselves(design):
    few = design.with_materials(2, iterations=2)
    assert [one.iteration for one in few.checks] == [few.status.iterations]


def test_materials_that_differ_in_more_than_the_fields_have_no_common_budget(raises_clear_error):
    """A cluster crosses regions, so it cannot have Young's modulus of both."""
    mesh = beam().mesh()
    cells = np.arange(mesh.n_cells)
    halves = {"soft": cells[: len(cells) // 2], "stiff": cells[len(cells) // 2 :]}
    robot = beam(
        shape=replace(mesh, regions=halves),
        divisions=None,
        material={"soft": pl.Material(E=1e5, nu=0.3), "stiff": pl.Material(E=1e6, nu=0.3)},
    )
    found = pl.codesign(
        pl.Quasistatic(robot, design=["cells.nu"]),
        TERMS[:1],
        [Variable("cells.nu", lower=0.1, upper=0.4)],
        steps=1,
        controls=np.ones((1, 2)),
        iterations=1,
        method="lbfgsb",
    )
    raises_clear_error(lambda: found.with_materials(2), "differ in E")


def test_exported_surfaces_are_closed_and_fill_the_body(design, tmp_path):
    few = design.with_materials(2, iterations=1)
    written = few.export(tmp_path)
    surfaces = [trimesh.load(path) for path in written if path.suffix == ".stl"]
    assert len(surfaces) == 2
    assert all(is_closed(np.asarray(surface.faces)) for surface in surfaces)
    assert sum(surface.volume for surface in surfaces) == pytest.approx(0.2 * 0.04**2, rel=1e-5)
    fields = meshio.read(tmp_path / "fields.vtu").point_data
    np.testing.assert_allclose(fields["E"], few.fields["cells.E"])
    loaded = pl.load_robot(tmp_path / "robot.toml")
    assert {one.E for one in loaded.material.values()} == set(few.fields["cells.E"])


def test_robot_of_a_field_needs_few_materials(design):
    with pytest.raises(InputError, match="with_materials"):
        _ = design.robot


def test_design_of_particles_bends_like_its_finite_elements():
    """The design of particles is validated with finite elements."""
    robot = beam(gravity=(0.0, -9.81), damping=pl.Damping(mass=20.0), divisions=(16, 4), order=1)
    particles = pl.MaterialPoint(robot, dt=0.01, cell=0.0075, design=["cells.E"])
    found = pl.codesign(
        particles,
        [Goal(effector="tip", target=(0.2, 0.014), weight=1e4, time=0.06)],
        [Variable("cells.E", lower=1e5, upper=1e6, groups=field_groups(particles, by="regions"))],
        steps=6,
        controls=np.zeros((6, 2)),
        iterations=1,
        checks=0,
        method="lbfgsb",
    )
    checked = found.with_materials(1, iterations=1).robot
    finite = pl.ImplicitEuler(replace(checked, order=2), dt=0.005)
    end = pl.simulate(finite, np.zeros((12, 2))).states[-1]
    drop = 0.02 - finite.effector("tip", end)[0, 1]
    moved = 0.02 - particles.effector("tip", found.simulate().states[-1])[0, 1]
    assert drop == pytest.approx(moved, rel=0.1)


# Stable substeps


@pytest.mark.parametrize("inside_loop", [False, True])
def test_substeps_are_stable_for_every_design(inside_loop):
    names = ["cells.E", "cells.nu", "cells.density"]
    particles = pl.MaterialPoint(beam(), dt=0.005, cell=0.02, design=names)
    model = particles
    if inside_loop:
        gait = pl.learning.SineGait(n_controls=2)
        model = pl.learning.ClosedLoop(particles, None, gait)
    problem = Problem(
        model=model,
        steps=1,
        terms=[Goal(effector="tip", target=(0.2, 0.0), time=0.005)],
        variables=[
            Variable("cells.E", lower=1e5, upper=1e7),
            Variable("cells.nu", lower=0.2, upper=0.4),
            Variable("cells.density", lower=700.0, upper=2000.0),
        ],
    )
    made = with_stable_substeps(problem).model
    made = made.model if inside_loop else made
    n = particles.body.n_particles
    fastest = np.repeat([1e7, 0.4, 700.0], n)
    x, u = particles.initial_state(), np.zeros(2)
    assert not particles.step(x, u, fastest).status.ok
    assert made.step(x, u, fastest).status.ok
    assert made.substeps == particles.stable_substeps(fastest)


def particle_problem(name, lower, upper, **options):
    model = pl.MaterialPoint(beam(), dt=0.005, cell=0.02, design=[name])
    return model, Problem(
        model=model,
        steps=1,
        terms=[Goal(effector="tip", target=(0.2, 0.0), time=0.005)],
        variables=[Variable(name, lower=lower, upper=upper)],
        **options,
    )


def test_substeps_are_stable_for_an_auxetic_material():
    """Waves are faster at nu = -0.7 than at nu = 0.3: (lambda + 2 mu) / E is 2.36 and 1.35."""
    model, problem = particle_problem("cells.nu", -0.7, 0.3)
    found = with_stable_substeps(problem).model.substeps
    n = model.body.n_particles
    assert found == model.stable_substeps(np.full(n, -0.7)) > model.stable_substeps(np.full(n, 0.3))


def test_substeps_of_the_model_of_a_scene_are_stable():
    other = pl.MaterialPoint(beam(gravity=(0.0, -9.81)), dt=0.005, cell=0.02, design=["cells.E"])
    model, problem = particle_problem(
        "cells.E", 1e5, 1e7, scenes=[pl.problem.Scene(1), pl.problem.Scene(1, model=other)]
    )
    made = with_stable_substeps(problem)
    fastest = model.stable_substeps(np.full(model.body.n_particles, 1e7))
    assert made.model.substeps == made.scenes[1].model.substeps == fastest


def test_shape_and_stiffness_of_particles_are_designed_together():
    arm = pl.design.ParametrisedRobot(
        make=beam(actuators={}, loads=[pl.PointLoad(point=(0.2, 0.02), force=(0.0, -0.1))]),
        parameters={"length": pl.design.Stretch(axis="x", value=0.2, lower=0.15, upper=0.25)},
    )
    model = arm.model(pl.MaterialPoint, dt=0.005, cell=0.02, design=["cells.E"])
    found = pl.codesign(
        model,
        [Goal(effector="tip", target=(0.21, 0.02), weight=1e4)],
        [replace(E_FIELD, groups=field_groups(model, by="regions"), upper=4e6), "shape.length"],
        steps=2,
        iterations=8,
        method="lbfgsb",
    )
    assert found.values["shape.length"][0] == pytest.approx(0.21, abs=1e-3)
    printed = found.with_materials(1, iterations=1).robot
    assert np.ptp(printed.mesh().points[:, 0]) == pytest.approx(0.21, abs=1e-3)


def test_light_particles_on_a_stiff_cable_need_more_substeps():
    """The frequency of a spring rises with 1 / sqrt(mass)."""
    cable = pl.actuators.Cable(points=[(0.0, 0.03), (0.2, 0.03)], drive="length", stiffness=1e6)
    model = pl.MaterialPoint(
        beam(actuators={"cable": cable}), dt=0.005, cell=0.02, design=["cells.volume"]
    )
    volumes = model.body.volumes()
    assert model.stable_substeps(0.25 * volumes) > 1.8 * model.stable_substeps(volumes)


def test_bulk_modulus_of_a_fluid_in_particles_needs_an_upper_bound(raises_clear_error):
    """A stiff fluid oscillates faster than waves cross a cell."""
    robot = pl.Robot(
        shape=pl.geometry.name_cavities(
            pl.geometry.Annulus(outer=0.1, inner=0.05).mesh(divisions=(16, 2))
        ),
        order=1,
        material=pl.Material(E=1e5, nu=0.3),
        actuators={"air": pl.actuators.Pressure(cavity="cavity-1", drive="volume")},
        effectors={"end": pl.Effector(point=(0.09, 0.0))},
    )
    name = "actuators.air.bulk"
    model = pl.MaterialPoint(robot, dt=0.002, cell=0.03, transfer="total", design=[name])
    goal = Goal(effector="end", target=(0.1, 0.0), time=0.002)
    wide = Problem(model=model, steps=1, terms=[goal], variables=[Variable(name, upper=1e9)])
    assert with_stable_substeps(wide).model.substeps == model.stable_substeps(np.array([1e9]))
    assert model.stable_substeps(np.array([1e9])) > 3 * model.substeps
    free = replace(wide, variables=[Variable(name)])
    raises_clear_error(lambda: with_stable_substeps(free), "has no upper bound")


@pytest.mark.parametrize("transfer", ["updated", "total"])
def test_both_ends_of_a_cable_of_particles_are_designed(transfer):
    """The substeps are those of the first route: at their upper bounds all points would meet."""
    cable = pl.Cable(points=[(0.0, 0.025), (0.19, 0.03)], limits=(0.0, 1.0))
    names = [f"actuators.cable.point{k}.{axis}" for k in range(2) for axis in "xy"]
    model = pl.MaterialPoint(
        beam(actuators={"cable": cable}), dt=0.01, cell=0.02, transfer=transfer, design=names
    )
    found = pl.codesign(
        model,
        [pl.Goal(effector="tip", target=(0.19, 0.04), weight=1e4)],
        names,
        steps=5,
        controls=np.full((5, 1), 0.5),
        method="lbfgsb",
        iterations=3,
        progress=False,
    )
    assert found.value < 0.99 * found.result.history[0].value


def test_field_of_particles_without_upper_bound_is_an_error(raises_clear_error):
    particles = pl.MaterialPoint(beam(), dt=0.005, cell=0.02, design=["cells.E"])
    raises_clear_error(
        lambda: pl.codesign(particles, TERMS, ["cells.E"], steps=1), "has no upper bound"
    )


# Checks of the gradient


def test_gradient_of_a_smooth_problem_predicts_the_change(design):
    check = design.checks[-1]
    assert check.agreement > 0.9
    assert np.isnan(check.contact_share)
    assert design.notes == ()


def test_gradient_that_predicts_nothing_is_reported():
    """A cost with fine ripples has a useless gradient over a long step."""
    ripple = FinalCost(
        function=lambda x, u, p: 1.0 + np.sin(3e3 * np.log(p[0])) + np.log(p[0]),
        gradient=lambda x, u, p: (None, None, (3e3 * np.cos(3e3 * np.log(p)) + 1.0) / p),
    )
    problem = Problem(
        model=static(["body.E"]),
        steps=1,
        terms=[ripple],
        controls=np.zeros((1, 2)),
        variables=[Variable("body.E", lower=1e5, upper=1e6)],
    )
    objective = ProblemObjective(problem)
    check = check_gradient(objective, objective.start + 1e-3, iteration=3, step=0.1)
    assert check.agreement < 0.5
    assert "The gradient of iteration 3 does not predict" in gradient_warnings([check])[0]
    failed = gradient_warnings([replace(check, measured=np.nan)])[0]
    assert "simulated none, because a simulation failed" in failed


def bouncing_mass(layer, slip_speed):
    """Return the objective of a mass with a thruster that bounces on a slope for 1.5 s."""
    robot = pl.Robot(
        shape=pl.PointMass(points=[[0.0, 0.0, 0.3]], mass_each=0.2),
        gravity=(0.0, 0.0, -9.81),
        actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0, 0.3), limits=(-1.0, 1.0))},
        effectors={"mass": pl.Effector(point=(0.0, 0.0, 0.3))},
        contacts=[
            pl.Contact(
                obstacle=pl.plane((0.1, 0.0, 1.0)),
                stiffness=500.0,
                layer=layer,
                friction=0.3,
                slip_speed=slip_speed,
            )
        ],
    )
    problem = Problem(
        model=pl.BDF2(robot, dt=0.005),
        steps=300,
        terms=[Goal(effector="mass", target=(0.5, 0.0, 0.1), time=1.5)],
        variables=[Variable("controls", start=np.tile([0.2, 0.0, 0.06], (300, 1)))],
    )
    return ProblemObjective(problem)


def test_gradient_through_bounces_is_repaired_by_smoothed_contacts():
    sharp, smooth = (
        check_gradient(objective, objective.start, iteration=0, step=0.02)
        for objective in (bouncing_mass(1e-3, 0.01), bouncing_mass(0.1, 0.3))
    )
    assert "smooth the contacts" in gradient_warnings([sharp])[0]
    assert gradient_warnings([smooth]) == ()
    assert smooth.agreement > 0.9


@pytest.mark.parametrize("rule", ["finite elements", "updated", "total"])
def test_share_of_steps_in_contact_is_counted(rule):
    """Particles of the updated transfer touch the ground from a grid cell above it."""
    ball = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.04, 0.04), origin=(0.0, 0.01)),
        divisions=(2, 2),
        order=1,
        material=pl.Material(E=1e5, nu=0.3),
        gravity=(0.0, -9.81),
        damping=pl.Damping(stiffness=0.005),  # it hardly bounces
        contacts=[pl.Contact(obstacle=pl.plane((0.0, 1.0)))],
        effectors={"body": pl.Effector(region="body")},
    )
    if rule == "finite elements":
        model = pl.ImplicitEuler(ball, dt=0.01, design=["body.E"])
    else:
        model = pl.MaterialPoint(ball, dt=0.01, cell=0.02, design=["body.E"], transfer=rule)
    found = pl.codesign(
        model,
        [Goal(effector="body", target=(0.02, 0.02), time=0.06)],
        [Variable("body.E", lower=5e4, upper=2e5)],
        steps=10,
        iterations=1,
        checks=1,
        method="lbfgsb",
    )
    fall = np.sqrt(2.0 * 0.01 / 9.81)  # 45 ms: contact from about the fifth step on
    expected = 1.0 if rule == "updated" else 1.0 - fall / 0.1
    assert found.checks[0].contact_share == pytest.approx(expected, abs=0.15)


# Resuming and wrong input


def test_resumed_design_equals_one_run_bit_for_bit(tmp_path):
    options = {"method": "adam", "checks": 2}
    whole = field_design(iterations=6, folder=tmp_path / "whole", **options)
    field_design(iterations=3, folder=tmp_path / "parts", **options)
    parts = field_design(iterations=6, folder=tmp_path / "parts", resume=True, **options)
    np.testing.assert_array_equal(parts.result.z, whole.result.z)
    assert [row.value for row in parts.result.history] == [
        row.value for row in whole.result.history
    ]
    assert whole.checks[-1] == parts.checks[-1]


def test_report_shows_the_design(design, tmp_path):
    page = design.report(tmp_path / "page", small=True).read_text()
    for text in ("cells.E", "Gradient checks", "beam"):
        assert text in page
    assert (tmp_path / "page" / "optimisation.json").exists()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"checks": -1}, "number of checks is '-1'"),
        ({"iterations": 0}, "number of iterations is '0'"),
        ({"resume": True, "variables": [E_FIELD, "controls"]}, "no folder to resume from"),
        ({"speed": 1}, "no argument 'speed'"),
        ({"terms": pl.Effort(weight=1.0)}, "give a list"),
        ({"variables": ["cells.E", "cells.E"]}, "given twice"),
        ({"variables": "cells.E"}, "give a list"),
        ({"model": beam()}, "make one with MaterialPoint"),
    ],
)
def test_wrong_input_is_a_clear_error(change, text, raises_clear_error):
    arguments = {"model": static(["cells.E"]), "terms": TERMS, "variables": [E_FIELD], "steps": 1}
    given = {**arguments, **change}
    raises_clear_error(lambda: pl.codesign(**given), text)


def test_damaged_checks_are_a_clear_error(tmp_path, raises_clear_error):
    field_design(iterations=1, folder=tmp_path)
    (tmp_path / "gradient-checks.json").write_text('{"checks": [1, 2]}')
    raises_clear_error(
        lambda: field_design(iterations=2, folder=tmp_path, resume=True), "is damaged"
    )


def test_wrong_arguments_of_a_design_are_clear_errors(design, tmp_path, raises_clear_error):
    file = tmp_path / "file"
    file.write_text("")
    raises_clear_error(lambda: design.simulate(1), "no scene '1'")
    raises_clear_error(lambda: design.with_materials(2, seed="a"), "The seed is 'a'")
    raises_clear_error(lambda: design.export(file), "needs a folder")
    raises_clear_error(lambda: design.export(file / "below"), "below")
    raises_clear_error(lambda: design.export(None), "The folder is 'None'")


@pytest.mark.parametrize("count", [0, 1.5, "two"])
def test_wrong_number_of_materials_is_a_clear_error(design, count, raises_clear_error):
    raises_clear_error(lambda: design.with_materials(count), "number of materials")
