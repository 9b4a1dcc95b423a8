"""Checks of numbers and texts, and the space of states: integers that are too large, control
characters in messages, quaternions."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import (
    InputError,
    Space,
    check_limits,
    counted_of,
    finite_array,
    is_integer,
    nearest,
    printable,
    quaternion_exponential,
    quaternion_logarithm,
    quaternion_product,
    quoted,
    require_kind,
    require_number,
    require_positive,
)

HUGE = (10**400, -(10**400), 10**5000)


@pytest.mark.parametrize("huge", HUGE, ids=["400 digits", "negative", "5000 digits"])
@pytest.mark.parametrize(
    "use",
    [
        lambda huge: require_number("The mass", huge, "kg"),
        lambda huge: require_positive("The mass", huge, "kg"),
        lambda huge: finite_array("The force", [0.0, huge], (2,), "N"),
        lambda huge: finite_array("The force", huge, (), "N"),
        lambda huge: check_limits("The cable", (0, huge)),
        lambda huge: pl.Material(E=huge, nu=0.3),
        lambda huge: pl.Box(size=(huge, 1, 1)),
        lambda huge: pl.robots.hydraulic_finger(along=huge),
        lambda huge: pl.Support(region=huge),
        lambda huge: pl.planners.Options(iterations=huge),
        lambda huge: pl.Material(E=1e5, nu=0.3, power=huge),
    ],
)
def test_huge_integers_raise_clear_error(use, huge, raises_clear_error) -> None:
    raises_clear_error(lambda: use(huge), r"1000|4300")


def test_integers_are_limited_to_64_bits() -> None:
    assert is_integer(2**63 - 1)
    assert is_integer(np.int32(3))
    assert not is_integer(2**63)
    assert not is_integer(True)
    assert not is_integer(10**5000)


def test_errors_show_control_characters_escaped() -> None:
    error = InputError("The region 'a\x1b[31m\0\u202e\udcff' is unknown.")
    assert str(error) == r"The region 'a\x1b[31m\x00\u202e\udcff' is unknown."
    assert printable(printable("ü\t")) == r"ü\t"
    assert printable("a\nb") == r"a\nb"


def test_errors_keep_line_breaks_spaces_and_paths() -> None:
    text = f"No file /home/{'a' * 190}.toml\nin 5\u00a0mm\u202f\u3000."
    assert str(InputError(text)) == text


def test_errors_shorten_long_words() -> None:
    text = str(InputError(f"The region '{'a' * 5000}' is unknown; {nearest('a' * 5000, ['x'])}"))
    assert len(text) < 600
    assert text.endswith("choose one of x.")


def test_quoted_value_is_shortened() -> None:
    assert quoted("a" * 100) == repr("a" * 60)
    assert quoted([10**5000]) == "'list of more than 4300 digits'"


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("The terms", "The terms are "),
        ("The spacing of particles", "The spacing of particles is "),
        ("The limits of inverse control", "The limits of inverse control are "),
        ("The mesh to fill with particles", "The mesh to fill with particles is "),
    ],
)
def test_error_about_a_kind_agrees_with_its_noun(name, start):
    with pytest.raises(InputError, match=f"^{start}"):
        require_kind(name, None, list, "give a list")


def test_space_integrates_and_differences_quaternions() -> None:
    space = Space(
        parts=("position", "orientation", "rate"),
        n_dofs=2,
        sizes=(2, 4, 3),
        quaternions=("orientation",),
    )
    rng = np.random.default_rng(0)
    orientation = rng.normal(size=4)
    x = np.concatenate([[1.0, 2.0], orientation / np.linalg.norm(orientation), [3.0, 4.0, 5.0]])
    dx = rng.normal(size=space.tangent_size)
    y = space.integrate(x, dx)
    assert space.tangent_size == 8
    assert np.linalg.norm(space.split(y).orientation) == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(space.difference(x, y), dx, atol=1e-13)
    # -q is the same rotation as q
    flipped = np.concatenate([y[:2], -y[2:6], y[6:]])
    np.testing.assert_allclose(space.difference(x, flipped), dx, atol=1e-13)


@pytest.mark.parametrize("angle", [0.0, 1e-6, 5e-3, 0.02, 2.0])
def test_derivatives_of_integration_agree_with_differences(angle: float) -> None:
    space = Space(
        parts=("position", "orientation", "rate"),
        n_dofs=2,
        sizes=(2, 4, 3),
        quaternions=("orientation",),
    )
    rng = np.random.default_rng(0)
    x = rng.normal(size=space.size)
    x[2:6] /= np.linalg.norm(x[2:6])
    dx, d, x_bar = rng.normal(size=8), rng.normal(size=(8, 3)), rng.normal(size=9)
    dx[2:5] *= angle / np.linalg.norm(dx[2:5])
    h = 1e-5
    expected = np.stack(
        [(space.integrate(x, dx + h * v) - space.integrate(x, dx - h * v)) / (2 * h) for v in d.T],
        axis=1,
    )
    np.testing.assert_allclose(space.integrate_jvp(x, dx, d), expected, atol=1e-9)
    np.testing.assert_allclose(space.integrate_vjp(x, dx, x_bar) @ d, x_bar @ expected, atol=1e-9)


def test_quaternion_of_full_turns_stays_a_unit_rotation() -> None:
    step = quaternion_exponential(np.array([0.0, 0.0, 2.0 * np.pi / 7.0]))
    q = np.array([1.0, 0.0, 0.0, 0.0])
    for _ in range(21):  # three turns
        q = quaternion_product(step, q)
    np.testing.assert_allclose(quaternion_logarithm(q), 0.0, atol=1e-13)
    half = quaternion_exponential(np.array([0.0, np.pi, 0.0]))
    assert np.linalg.norm(quaternion_logarithm(half)) == pytest.approx(np.pi)


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(1, 8, "1 of 8 cells is"), (2, 8, "2 of 8 cells are"), (1, 1, "1 of 1 cell is")],
)
def test_counted_part_agrees_with_its_noun_and_verb(part, whole, text):
    assert counted_of(part, whole, "cell", ("is", "are")) == text
