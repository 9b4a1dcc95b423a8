"""Scenes of particles show strain, actuation and obstacles, and VTK files keep the data."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import meshio
import numpy as np
import pytest

import pliant as pl
from pliant.actuators import Fluidic, Muscle
from pliant.contact import Contact, plane, sphere, terrain
from pliant.core import InputError, PliantError
from pliant.dynamics import simulate
from pliant.geometry import Rectangle
from pliant.report import animate, draw, make_stage
from pliant.report.obstacle_outlines import surroundings
from pliant.report.particle_files import write_vtk
from pliant.report.particle_scene import particle_scene
from pliant.store import PointFrame, write_point_frames

SOFT, HARD = pl.Material(E=2e4, nu=0.3, density=1000.0), pl.Material(E=4e4, nu=0.3, density=1200.0)
FLOOR = Contact(obstacle=plane((0.0, 1.0)), friction=0.4)
LEFT = Rectangle(size=(0.1, 0.1))


def flat(**changes):
    """Return a particle model of a 0.2 x 0.1 m block with a particle spacing of 5 mm."""
    robot = {"shape": Rectangle(size=(0.2, 0.1)), "cell": 0.05, "material": SOFT}
    return pl.MaterialPoint(pl.Robot(**{**robot, **changes}), dt=0.005, cell=0.01)


def solid(**changes):
    robot = {"shape": pl.Box(size=(0.2, 0.1, 0.1)), "cell": 0.05, "material": SOFT}
    return pl.MaterialPoint(pl.Robot(**{**robot, **changes}), dt=0.005, cell=0.02)


def at_rest(model):
    return model.initial_state()[None]


def stretched(model, stretches):
    """Return states (frames, n_state) whose left half is stretched along x."""
    rest = model.body.rest.reshape(-1, model.dim)
    out = []
    for stretch in stretches:
        F = np.tile(np.eye(model.dim), (len(rest), 1, 1))
        F[rest[:, 0] < 0.1, 0, 0] = stretch
        out.append(model.state(rest.ravel(), deformation=F))
    return np.array(out)


def test_values_are_green_strain_norm_of_finite_elements():
    model = flat()
    F = np.array([[1.2, 0.3], [0.0, 0.9]])
    position = model.body.rest.reshape(-1, 2) @ F.T
    scene = particle_scene(
        model, model.state(position.ravel(), deformation=np.tile(F, (len(position), 1, 1)))[None]
    )
    elements = model.robot.body()
    deformed = elements.rest.reshape(-1, 2) @ F.T
    np.testing.assert_allclose(
        scene.values[0], 100.0 * elements.strain(deformed.ravel())[0], rtol=1e-9
    )
    assert scene.value_label == "Green strain |E| [%]"
    np.testing.assert_allclose(scene.frames[0], position)


def test_dot_colour_shows_strain():
    model = flat()
    scene = particle_scene(model, stretched(model, [1.0, 1.2]), title="block")
    left, right, bottom, top = make_stage(scene).camera.window

    def brightness(k, point):
        x, y = point
        return (
            draw(scene, k)[
                int((top - y) / (top - bottom) * 720), int((x - left) / (right - left) * 960)
            ]
            .astype(int)
            .sum()
        )

    point, other = model.body.samples.points[[0, -1]]
    assert brightness(1, point) < 300  # dark red
    assert brightness(1, other) > 600  # pale
    assert brightness(0, point) > 600


def test_unstrained_body_has_minimum_colour_range():
    model = flat()
    x = model.initial_state()
    scene = particle_scene(model, np.array([x, x * (1.0 + 1e-15)]))
    assert scene.value_limits == (0.0, 0.1)


def test_actuation_colour_shows_muscle_stress_in_its_region():
    model = flat(
        actuators={
            "muscle": Muscle(region=LEFT, axis=(1.0, 0.0), limits=(-1e3, 1e3)),
            "fluid": Fluidic(region=LEFT),
        }
    )
    states = stretched(model, [1.0, 1.0, 1.0])
    scene = particle_scene(
        model, states, controls=[[500.0, 0.0], [-1000.0, 2000.0]], colour="actuation"
    )
    driven = model.body.samples.points[:, 0] < 0.1
    np.testing.assert_allclose(
        scene.values[:, driven], np.repeat([[0.0], [0.5], [1.0]], driven.sum(), axis=1)
    )
    assert not scene.values[:, ~driven].any()
    assert scene.value_label == "stress [kPa]"


def test_cable_width_shows_tension_of_any_actuator():
    ends = [(0.01, 0.05), (0.19, 0.05)]
    model = flat(
        actuators={
            "by tension": pl.Cable(points=ends),
            "by length": pl.Cable(points=ends, drive="length", stiffness=100.0),
        }
    )
    scene = particle_scene(
        model,
        stretched(model, [1.0, 1.0, 1.0]),
        controls=[[4.0, 1.0], [2.0, 0.5]],
        colour="actuation",
    )
    first, second = scene.lines
    np.testing.assert_allclose(first.relative_tension, [0.0, 4.0 / 9.0, 2.0 / 9.0], atol=1e-12)
    np.testing.assert_allclose(
        second.relative_tension, [0.0, 0.0, 1.0], atol=1e-12
    )  # 100 N/m x half of 0.18 m
    assert scene.key == "thickest cable: 9 N"
    assert scene.values is None  # cables have no region to colour
    np.testing.assert_allclose(first.points[0], ends, atol=1e-9)


def test_cables_without_controls_have_no_tension():
    model = flat(actuators={"cable": pl.Cable(points=[(0.01, 0.05), (0.19, 0.05)])})
    scene = particle_scene(model, at_rest(model))
    assert scene.lines[0].relative_tension is None
    assert scene.key == ""


def test_animation_contains_all_frames_of_run(tmp_path: Path):
    model = flat(
        contacts=[FLOOR],
        gravity=(0.0, -9.81),
        effectors={"tip": pl.Effector(point=(0.2, 0.05))},
        actuators={"cable": pl.Cable(points=[(0.01, 0.02), (0.19, 0.02)])},
    )
    run = simulate(model, np.full((6, 1), 2.0))
    scene = particle_scene(model, run.states, controls=run.controls, targets=[[0.25, 0.05]])
    assert len(scene.frames) == 7
    assert scene.dt == model.dt
    assert scene.ground == 0.0
    assert not scene.follow
    np.testing.assert_allclose(scene.markers[0, 0], (0.2, 0.05), atol=1e-9)
    mp4, gif = animate(scene, tmp_path, size=(320, 240))
    assert mp4.stat().st_size > 1000
    assert gif.stat().st_size > 1000


def test_only_particles_near_the_surface_are_drawn_in_3d():
    model = pl.MaterialPoint(
        pl.Robot(shape=pl.Box(size=(0.2, 0.2, 0.2)), cell=0.1, material=SOFT), dt=0.005, cell=0.02
    )
    drawn = particle_scene(model, at_rest(model)).facets[:, 0]
    points = model.body.samples.points
    depth = np.minimum(points, 0.2 - points).min(axis=1)
    assert set(np.flatnonzero(depth < 0.015)) <= set(drawn)  # at least one and a half layers
    assert len(drawn) < len(points)
    assert depth[drawn].max() < 0.06


def test_view_follows_body_with_large_displacement():
    model = flat(contacts=[FLOOR])
    rest = model.body.rest.reshape(-1, 2)
    states = np.array(
        [model.state((rest + [shift, 0.0]).ravel()) for shift in np.linspace(0.0, 1.0, 11)]
    )
    assert particle_scene(model, states).follow
    assert not particle_scene(model, states[:5]).follow


# Obstacles


def winding_number(rings, point):
    """Return the winding number of closed curves around a point."""
    angles = 0.0
    for ring in rings:
        angle = np.unwrap(np.arctan2(*(ring - point).T[::-1]))
        angles += angle[-1] - angle[0]
    return round(angles / (2.0 * np.pi))


BODY = np.random.default_rng(0).uniform(0.0, 0.1, (3, 50, 2))


@pytest.mark.parametrize(
    "obstacle",
    [
        plane((0.3, 1.0), -0.05),
        sphere((0.1, -0.1), 0.08),
        terrain(0.03 * np.sin(np.arange(20.0)), 0.05, (-0.4, -0.1)),
        lambda y: (0.3 - np.hypot(*y.T),),
    ],
    ids=["slope", "ball", "terrain", "arena"],
)
def test_plane_outlines_enclose_the_obstacle(obstacle, rng):
    rings = surroundings([obstacle], BODY, 0.3)
    points = rng.uniform(-0.29, 0.39, (200, 2))
    distance = np.asarray(obstacle(points)[0])
    for point, d in zip(points, distance, strict=True):
        if abs(d) > 0.004:  # the grid of the outline does not resolve less
            assert winding_number(rings, point) == (d < 0.0)


def test_slices_of_3d_obstacles_lie_on_their_surface():
    slope = plane((0.2, 0.1, 1.0), -0.05)
    body = np.random.default_rng(0).uniform(0.0, 0.1, (2, 50, 3))
    curves = surroundings([slope], body, 0.2)
    assert len(curves) > 10
    np.testing.assert_allclose(slope(np.concatenate(curves))[0], 0.0, atol=1e-12)
    ball = sphere((0.0, 0.0, 0.0), 0.1)
    assert len(surroundings([ball], body, 0.2)) == len(ball.outline)


def test_horizontal_plane_is_ground_and_other_obstacles_are_surroundings():
    model = flat(contacts=[FLOOR, Contact(obstacle=sphere((0.3, 0.0), 0.05))])
    scene = particle_scene(model, at_rest(model))
    assert scene.ground == 0.0
    assert len(scene.surroundings) == 1
    assert particle_scene(flat(), at_rest(flat()), ground=-0.1).ground == -0.1


# Files


@pytest.mark.parametrize("make", [flat, solid])
def test_vtk_files_keep_states(make, tmp_path: Path):
    model = make()
    rng = np.random.default_rng(1)
    n, d = model.body.n_particles, model.dim
    states = np.array(
        [
            model.state(
                model.body.rest + 0.01 * k,
                rng.normal(size=n * d),
                deformation=np.eye(d) + 0.1 * rng.normal(size=(n, d, d)),
            )
            for k in range(5)
        ]
    )
    index = write_vtk(tmp_path, model, states, every=2)
    frames = [
        (float(entry.get("timestep")), entry.get("file"))
        for entry in ElementTree.parse(index).iter("DataSet")
    ]
    assert frames == [(k * model.dt, f"particles-{k // 2:06d}.vtu") for k in (0, 2, 4)]
    for (_, name), x in zip(frames, states[::2], strict=True):
        mesh, parts = meshio.read(tmp_path / name), model.space.split(x)
        F = parts.deformation.reshape(n, d, d)
        np.testing.assert_array_equal(mesh.points[:, :d].ravel(), parts.position)
        np.testing.assert_array_equal(mesh.point_data["velocity"][:, :d].ravel(), parts.velocity)
        assert mesh.points.shape == mesh.point_data["velocity"].shape == (n, 3)
        np.testing.assert_allclose(mesh.point_data["J"], np.linalg.det(F))
        np.testing.assert_allclose(
            mesh.point_data["strain"],
            np.linalg.norm(np.einsum("nji,njk->nik", F, F) - np.eye(d), axis=(1, 2)) / 2,
        )
        assert [(block.type, len(block.data)) for block in mesh.cells] == [("vertex", n)]


def test_vtk_files_number_materials_in_order(tmp_path: Path):
    points = np.array([[0.0, 0.0], [0.1, 0.0], [0.2, 0.0], [0.0, 0.1], [0.1, 0.1], [0.2, 0.1]])
    cells = np.array([[0, 1, 3], [1, 4, 3], [1, 2, 4], [2, 5, 4]])
    mesh = pl.Mesh(
        points=points, cells=cells, regions={"left": np.array([0, 1]), "right": np.array([2, 3])}
    )
    model = flat(shape=mesh, cell=None, order=1, material={"right": HARD, "left": SOFT})
    write_vtk(tmp_path, model, at_rest(model))
    found = meshio.read(tmp_path / "particles-000000.vtu")
    assert found.point_data["material"].dtype == np.int64
    np.testing.assert_array_equal(found.point_data["material"], found.points[:, 0] < 0.1)


def test_vtk_frames_of_earlier_run_are_removed(tmp_path: Path):
    model = flat()
    write_vtk(tmp_path, model, np.repeat(at_rest(model), 4, axis=0))
    (tmp_path / "particles-notes.vtu").write_text("mine")
    write_vtk(tmp_path, model, np.repeat(at_rest(model), 2, axis=0))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "particles-000000.vtu",
        "particles-000001.vtu",
        "particles-notes.vtu",
        "particles.pvd",
    ]


# Bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "stress"}, "cannot be coloured by 'stress'; "),
        ({"colour": "actuation"}, "without controls"),
        (
            {"controls": np.zeros((5, 1))},
            r"has 5 rows for 3 states. Give 2, one for each step between them, or 3",
        ),
        ({"controls": np.zeros((2, 3))}, r"controls has shape \(2, 3\)"),
        ({"marked": ("tpi",)}, "no effector 'tpi'; did you mean 'tip'"),
        ({"targets": [[0.0, 0.0, 0.0]]}, "`targets`"),
    ],
)
def test_invalid_scene_options_raise(options, message):
    model = flat(
        actuators={"cable": pl.Cable(points=[(0.01, 0.05), (0.19, 0.05)])},
        effectors={"tip": pl.Effector(point=(0.2, 0.05))},
    )
    with pytest.raises(InputError, match=message):
        particle_scene(model, np.repeat(at_rest(model), 3, axis=0), **options)


def test_states_of_other_model_raise(tmp_path: Path):
    model, other = flat(), solid()
    for make in (particle_scene, lambda m, x: write_vtk(tmp_path / "out", m, x)):
        with pytest.raises(
            InputError,
            match=r"The array of states has shape \(1, \d+\); give numbers of shape \(n, \d+\)",
        ):
            make(model, at_rest(other))
        with pytest.raises(InputError, match="The array of states is nan at entry 0, 0"):
            make(model, np.full_like(at_rest(model), np.nan))
        with pytest.raises(InputError, match="There are no states"):
            make(model, at_rest(model)[:0])
        with pytest.raises(InputError, match=r"make one with MaterialPoint\(robot"):
            make(pl.ImplicitEuler(model.robot, dt=0.01), at_rest(model))
    assert not (tmp_path / "out").exists()


def test_unwritable_vtk_files_raise(tmp_path: Path):
    model = flat()
    with pytest.raises(InputError, match=r"`every` is '0'\. Give a whole number"):
        write_vtk(tmp_path, model, at_rest(model), every=0)
    (tmp_path / "file").write_text("here")
    with pytest.raises(PliantError, match="could not be written"):
        write_vtk(tmp_path / "file", model, at_rest(model))


@pytest.mark.parametrize(
    ("points", "fields", "message"),
    [
        (np.zeros((3, 4)), {}, r"shape \(3, 4\). Give points \(n, 2\) or \(n, 3\)"),
        (
            np.zeros((3, 2)),
            {"heat": np.zeros(4)},
            r"The field 'heat' of a VTK file has shape \(4,\)",
        ),
        (np.zeros((3, 2)), {"heat": np.full(3, np.inf)}, "The field 'heat' of a VTK file is inf"),
    ],
)
def test_invalid_vtk_points_raise(points, fields, message, tmp_path: Path):
    with pytest.raises(InputError, match=message):
        write_point_frames(tmp_path, [PointFrame(time=0.0, points=points, fields=fields)])
    with pytest.raises(InputError, match="no frames to write"):
        write_point_frames(tmp_path, [])


def test_booleans_are_written_as_integers(tmp_path: Path):
    booleans, integers = (
        {"held": value} for value in (np.array([True, False, True]), np.array([1, 0, 1]))
    )
    for name, fields in (("booleans", booleans), ("integers", integers)):
        write_point_frames(
            tmp_path / name, [PointFrame(time=0.0, points=np.zeros((3, 2)), fields=fields)]
        )
    first, second = (
        sorted((tmp_path / name).rglob("*.vtu"))[0].read_text() for name in ("booleans", "integers")
    )
    assert first == second
