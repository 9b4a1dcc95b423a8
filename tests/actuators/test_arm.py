"""Arms: kinematics match the product of the transforms of the data sheet; bad arm files are
rejected."""

import builtins
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import pliant
from pliant.actuators import load_arm
from pliant.core import InputError, MissingExtra
from pliant.zoo.robots import irb14000

FILE = Path(pliant.__file__).parent / "zoo" / "robots" / "irb14000.toml"
H = np.pi / 2
BASE = {
    "right": ((0.05355, -0.0725, 0.41492), (-0.9795, -0.5682, -2.3155)),
    "left": ((0.05355, 0.0725, 0.41492), (0.9781, -0.5716, 2.318)),
}
# the data sheet: xyz [m], rpy, lower, upper [rad], velocity [rad/s] of joints 2, 7, 3, 4, 5 and 6
CHAIN = [
    ((0.03, 0, 0.1), (H, 0, 0), -2.5045, 0.7592, 3.1416),
    ((-0.03, 0.17283, 0), (-H, 0, 0), -2.9409, 2.9409, 3.1416),
    ((-0.04188, 0, 0.07873), (H, -H, 0), -2.1555, 1.3963, 3.1416),
    ((0.0405, 0.16461, 0), (-H, 0, 0), -5.0615, 5.0615, 6.9813),
    ((-0.027, 0, 0.10039), (H, 0, 0), -1.5359, 2.4086, 6.9813),
    ((0.027, 0.029, 0), (-H, 0, 0), -3.9968, 3.9968, 6.9813),
]
both = pytest.mark.parametrize("side", BASE)


def rotated(axis, angle):
    """Return the rotation (4, 4) by an angle about x, y or z."""
    T, (i, j) = np.eye(4), [(1, 2), (2, 0), (0, 1)][axis]
    T[i, i] = T[j, j] = np.cos(angle)
    T[j, i], T[i, j] = np.sin(angle), -np.sin(angle)
    return T


def elementary_transform(side, u):
    """Return the grip frame (4, 4) as the product of the joint transforms."""
    T = np.eye(4)
    for (xyz, rpy), angle in zip([BASE[side], *(row[:2] for row in CHAIN)], u, strict=True):
        shift = np.eye(4)
        shift[:3, 3] = xyz
        T = (
            T
            @ shift
            @ rotated(2, rpy[2])
            @ rotated(1, rpy[1])
            @ rotated(0, rpy[0])
            @ rotated(2, angle)
        )
    shift = np.eye(4)
    shift[2, 3] = 0.136
    return T @ shift


@both
def test_grip_point_is_product_of_transforms(side, rng):
    arm, l = irb14000(side), 0.1 * rng.standard_normal((6, 3))
    for u in (np.zeros(7), arm.start, *rng.uniform(*arm.limits, (20, 7))):
        T = elementary_transform(side, u)
        np.testing.assert_allclose(arm.positions(l, u), T[:3, 3] + l @ T[:3, :3].T, atol=1e-14)
        np.testing.assert_allclose(arm.outline(u)[-1], T[:3, 3], atol=1e-14)


@both
def test_limits_and_speeds_match_data_sheet(side):
    arm = irb14000(side)
    rows = np.array([(-2.9409, 2.9409, 3.1416), *(row[2:] for row in CHAIN)])
    np.testing.assert_array_equal(np.stack([*arm.limits, arm.velocity]), rows.T)
    assert arm.acceleration.shape == (7,)
    assert np.all(arm.acceleration > 0.0)


@both
def test_reach_is_bounded_by_link_lengths(side, rng):
    arm = irb14000(side)
    longest = sum(np.linalg.norm(row[0]) for row in CHAIN) + 0.136
    grips = np.array(
        [arm.positions(np.zeros((1, 3)), u)[0] for u in rng.uniform(*arm.limits, (2000, 7))]
    )
    reach = np.linalg.norm(grips - arm.xyz, axis=1).max()
    assert 0.7 < reach < longest


def test_default_poses_are_mirror_images():
    right, left = (
        irb14000(side).positions(np.array([[0, 0, 0], [0, 0, 1.0]]), irb14000(side).start)
        for side in BASE
    )
    np.testing.assert_allclose(
        left[0], right[0] * [1, -1, 1], atol=1e-3
    )  # the two bases differ by 2 mrad in their file
    np.testing.assert_allclose(right[0], [0.44, -0.15, 0.25], atol=5e-3)
    for grip, ahead in (right, left):
        assert ahead[2] - grip[2] < -0.9  # the gripper points down
        assert ahead[0] > grip[0]  # and a little forward
    for side in BASE:
        arm = irb14000(side)
        margin = np.minimum(arm.start - arm.limits[0], arm.limits[1] - arm.start)
        assert margin.min() > np.radians(30)


def test_arm_can_be_pickled_after_use():
    arm = irb14000("right")
    l = np.zeros((1, 3))
    here = arm.positions(l, arm.start)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(arm)).positions(l, arm.start), here)


def test_start_argument_replaces_start_of_file():
    np.testing.assert_array_equal(irb14000("left", start=np.zeros(7)).start, np.zeros(7))


def test_missing_pinocchio_error_names_install_command(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "pinocchio":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    arm = irb14000("right")
    with pytest.raises(MissingExtra, match=r"pip install 'pliant\[arms\]'"):
        arm.positions(np.zeros((1, 3)), arm.start)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("upper = 0.7592\n", "", r"The key 'upper' is missing in joints\[1\]; add it"),
        (
            "upper = 0.7592",
            "uper = 0.7592",
            r"no key 'uper' in joints\[1\]; did you mean 'upper'\?",
        ),
        ("upper = 0.7592", "upper = nan", "upper limit of joint '2' is nan"),
        (
            "upper = 0.7592",
            "upper = -3.0",
            "lower limit -2.5045 rad of joint '2' is not below its upper limit -3 rad",
        ),
        ("upper = 0.7592", 'upper = "far"', "upper limit of joint '2' is 'far'"),
        (
            "upper = 0.7592",
            "upper = -0.6",
            r"right has '2' at -0.57, outside its limits -2.5045 to -0.6",
        ),
        ("xyz = [0.03, 0.0, 0.1]", "xyz = [0.03, 0.0]", r"xyz of joint '2' has shape \(2,\)"),
        ("xyz = [0.03, 0.0, 0.1]", "xyz = [0.03, inf, 0.1]", "xyz of joint '2' is inf at entry 1"),
        ('name = "2"', 'name = "1"', "two joints '1'"),
        ('name = "2"', "name = 2", r"joints\[1\].name is '2' \(int\); write text in quotes"),
        ("velocity = 3.1416", "velocity = 0.0", "velocity of joint '1' is 0 rad/s"),
        ("grip = [0.0, 0.0, 0.136]", "grip = 0.136", r"grip of irb14000 right has shape \(\)"),
        ("grip = [0.0, 0.0, 0.136]", "", "The key 'grip' is missing in the file"),
        ("[[joints]]", "[[joint]]", "no key 'joint' in the file; did you mean 'joints'"),
        ("name =", "name =\n", "not TOML"),
    ],
)
def test_bad_arm_file_is_rejected(tmp_path, old, new, says):
    text = FILE.read_text()
    assert old in text
    path = tmp_path / "arm.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=re.escape(str(path)) + ": .*" + says):
        load_arm(path, side="right")


@pytest.mark.parametrize(
    ("side", "says"), [("rigth", "did you mean 'right'"), (None, "sides right, left; name one")]
)
def test_unknown_side_is_rejected(side, says):
    with pytest.raises(InputError, match=says):
        load_arm(FILE, side=side)


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (np.full(7, 1.0), "'2' at 1, outside its limits"),
        (np.zeros(6), "shape"),
        (np.full(7, np.nan), "nan"),
    ],
)
def test_start_of_wrong_size_is_rejected(start, says):
    with pytest.raises(InputError, match=says):
        irb14000("right", start=start)


def test_missing_arm_file_is_reported():
    with pytest.raises(InputError, match=r"nowhere.toml: There is no such arm file"):
        load_arm("nowhere.toml")


GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "robot-files.md"


def guide_arm(tmp_path, n_joints):
    """Return the arm file of the guide with its joint repeated up to a number of joints."""
    blocks = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (text,) = (block for block in blocks if "[[joints]]" in block)
    joint = text[text.index("[[joints]]") :]
    more = [joint.replace('"shoulder"', f'"elbow {k}"') for k in range(1, n_joints)]
    text = text.replace("start = [0.0]", f"start = {[0.0] * n_joints}")
    (tmp_path / "arm.toml").write_text("\n".join([text, *more]))
    return load_arm(tmp_path / "arm.toml")


@pytest.mark.parametrize("n_joints", [1, 2])
def test_short_arm_has_exact_positions_and_derivatives(tmp_path, rng, n_joints):
    arm, l, h = guide_arm(tmp_path, n_joints), rng.standard_normal((4, 3)), 1e-6
    u, bar, du = (rng.uniform(-1, 1, shape) for shape in (n_joints, (4, 3), n_joints))
    assert arm.outline(u).shape == (n_joints + 1, 3)
    for j, e in enumerate(h * np.eye(n_joints)):
        slope = (arm.positions(l, u + e) - arm.positions(l, u - e)) / (2 * h)
        np.testing.assert_allclose(arm.jacobian(l, u)[j], slope, atol=1e-8)
    work = lambda at: np.einsum("jkd,kd->j", arm.jacobian(l, at), bar)
    change = (work(u + h * du) - work(u - h * du)) / (2 * h)
    np.testing.assert_allclose(arm.hessian_vector(l, u, bar, du), change, atol=1e-7)
    if n_joints == 1:  # rotation about -y through (0, -0.1, 0.5), from the file's numbers
        grip = [0.0, -0.2, 0.5]
        np.testing.assert_allclose(arm.positions(np.zeros((1, 3)), u)[0], grip, atol=1e-12)
