"""Robot files with terrains and kinds of contact."""

import numpy as np
import pytest
from texts import BOX

import pliant as pl
from pliant.core import InputError
from pliant.robot_files import load_robot, load_task

STRIP = (
    '[geometry]\nshape = "rectangle"\nsize = [0.1, 0.02]\ndivisions = [4, 1]\norder = '
    "1\n[material]\nE = 1e5\nnu = 0.4\n"
)


@pytest.fixture
def written(tmp_path):
    def write(text: str):
        path = tmp_path / "robot.toml"
        path.write_text(text)
        return path

    return write


def test_terrain_matches_file(written):
    text = (
        '[[contacts]]\ntype = "terrain"\nheights = [[0, 0.01], [0.02, 0]]\nspacing = 0.1\norigin '
        "= [0, -0.05, 0]\nfriction = 0.4\n"
    )
    (contact,) = load_robot(written(BOX + text)).contacts
    assert contact.friction == 0.4
    at = np.array([[0.0, 0.05, 0.01], [0.1, -0.05, 0.02]])
    np.testing.assert_allclose(contact.obstacle(at)[0], 0.0, atol=1e-12)


def test_plane_terrain_has_list_of_heights(written):
    text = '[[contacts]]\ntype = "terrain"\nheights = [-0.01, -0.005, -0.01]\nspacing = 0.05\n'
    task = load_task(written(f"gravity = [0, -9.81]\n{STRIP}{text}[task]\ndt = 0.01\nsteps = 40\n"))
    run = pl.simulate(task.model(), lambda k, x: task.control(k), steps=task.steps)
    heights = task.model().space.position(run.states[-1])[1::2]
    assert -0.011 < heights.min() < -0.004  # the strip rests on the hill


def test_particle_contact_kind_is_read_and_rejected_by_finite_elements(written):
    path = written(BOX + '[[contacts]]\ntype = "plane"\nnormal = [0, 0, 1]\nkind = "sticky"\n')
    assert load_robot(path).contacts[0].kind == "sticky"
    with pytest.raises(InputError, match="A contact of kind 'sticky' is for MaterialPoint"):
        load_task(path).model()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('type = "terrain"\nspacing = 0.1', r"contacts\[0\].heights: this is missing"),
        (
            'type = "terrain"\nheights = [[0, 1], [0]]\nspacing = 0.1',
            r"contacts\[0\].heights: row 1 has 1 number, but row 0 has 2",
        ),
        (
            'type = "terrain"\nheights = "hill.png"\nspacing = 0.1',
            r"contacts\[0\].heights: this is .hill.png.; it must be a list",
        ),
        (
            'type = "terrain"\nheights = [0, "a"]\nspacing = 0.1',
            r'contacts\[0\].heights\[1\]: this is "a"; it must be a number',
        ),
        (
            'type = "terrain"\nheights = [0, nan]\nspacing = 0.1',
            r"contacts\[0\].heights\[1\]: .*finite number",
        ),
        (
            'type = "terrain"\nheights = []\nspacing = 0.1',
            r"contacts\[0\]: The heights of a terrain are",
        ),
        (
            'type = "terrain"\nheights = [0, 1]\nspacing = 0.1',
            r"contacts\[0\]: The obstacle of a contact does not fit a body in 3 dim",
        ),
        ('type = "terrain"\nheights = [[0, 1]]\nspacing = -1', r"The spacing of a terrain is -1 m"),
        (
            'type = "plane"\nnormal = [0, 0, 1]\nkind = "stick"',
            r"There is no kind of contact 'stick'; did you mean 'sticky'",
        ),
        (
            'type = "plane"\nnormal = [0, 0, 1]\nsurface = "z"',
            r"contacts\[0\]: The mesh has no surface or region 'z'",
        ),
    ],
)
def test_bad_contact_in_file_is_rejected(written, text, message):
    with pytest.raises(InputError, match=message) as caught:
        load_robot(written(f"{BOX}[[contacts]]\n{text}\n"))
    assert "\n" not in str(caught.value)
