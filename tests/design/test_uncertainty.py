"""Uncertainty of fitted parameters: linear regression has closed forms for all of it."""

import numpy as np
import pytest

from pliant.core import InputError
from pliant.design.uncertainty import describe_undetermined, reduced_rows, uncertainty

RNG = np.random.default_rng(4)
TIMES = np.linspace(0.0, 1.0, 40)
LINE = np.stack([np.ones(40), TIMES], axis=1)


def test_standard_errors_of_a_straight_line_are_the_textbook_ones():
    noise = 0.01 * RNG.standard_normal(40)
    residuals = noise - LINE @ np.linalg.lstsq(LINE, noise, rcond=None)[0]
    found = uncertainty(LINE, residuals, size=10.0, known_noise=False)
    s = np.sqrt(residuals @ residuals / 38)
    spread = np.sum((TIMES - TIMES.mean()) ** 2)
    slope, offset = s / np.sqrt(spread), s * np.sqrt(1 / 40 + TIMES.mean() ** 2 / spread)
    np.testing.assert_allclose(found.deviations, [offset, slope], rtol=1e-12)
    assert found.freedom == 38
    assert found.noise == pytest.approx(s)
    assert found.quantile == pytest.approx(2.0244, abs=1e-4)  # Student's t, 38 degrees
    expected = -TIMES.mean() / np.sqrt(np.mean(TIMES**2))
    assert found.correlation[0, 1] == pytest.approx(expected)
    known = uncertainty(LINE, residuals, size=10.0, known_noise=True)
    np.testing.assert_allclose(known.deviations, found.deviations / s)
    assert known.quantile == pytest.approx(1.95996, abs=1e-5)


def test_a_combination_without_effect_is_found_and_named():
    column = np.sin(7.0 * TIMES)
    J = np.stack([column, -column, TIMES], axis=1)
    found = uncertainty(J, 1e-3 * RNG.standard_normal(40), size=10.0, known_noise=False)
    assert np.isinf(found.deviations).tolist() == [True, True, False]
    names, logs = ("soft.E", "soft.density", "soft.nu"), np.array([True, True, False])
    (sentence,) = describe_undetermined(found.undetermined, names, logs)
    assert sentence.endswith("only soft.E / soft.density.")
    assert not np.triu(found.correlation, 1).any()


def test_small_shares_of_weak_and_absent_directions_count_in_the_deviations():
    """A parameter with a small share of a direction is as uncertain as this share of it."""
    v = np.array([1.0, 0.05, 0.02]) / np.linalg.norm([1.0, 0.05, 0.02])
    J = 100.0 * RNG.standard_normal((40, 3))
    J = J - np.outer(J @ v, v)
    weak = J + np.outer(np.ones(40), v) / np.sqrt(40) / 3.0  # a deviation of about 3 along v
    found = uncertainty(weak, np.ones(40), size=10.0, known_noise=True)
    exact = np.sqrt(np.diag(np.linalg.inv(weak.T @ weak)))
    assert np.isinf(found.deviations[0])
    np.testing.assert_allclose(found.deviations[1:], exact[1:], rtol=1e-9)
    (sentence,) = describe_undetermined(found.undetermined, ("a", "b", "c"), np.ones(3, bool))
    assert sentence.startswith("The data do not determine a:")
    none = uncertainty(J, np.ones(40), size=10.0, known_noise=True)
    assert np.isinf(none.deviations).all()
    (sentence,) = describe_undetermined(none.undetermined, ("a", "b", "c"), np.ones(3, bool))
    assert "a, b and c separately: changes in the proportions 1, 0.05, 0.02" in sentence


def test_parameters_without_any_effect_are_named_one_by_one():
    found = uncertainty(np.zeros((40, 2)), np.zeros(40), size=10.0, known_noise=False)
    sentences = describe_undetermined(found.undetermined, ("a.E", "b.E"), np.array([True, True]))
    assert sorted(sentence.split(":")[0] for sentence in sentences) == [
        "The data do not determine a.E",
        "The data do not determine b.E",
    ]


def test_effects_of_rounding_and_below_the_noise_are_none():
    residuals = RNG.standard_normal(40)
    for J, size in ((1e-12 * LINE, 10.0), (1e-3 * LINE, 1e-3)):
        assert np.isinf(uncertainty(J, residuals, size=size, known_noise=True).deviations).all()


def test_a_prior_makes_parameters_certain_and_lowers_the_degrees_of_freedom_less():
    J = np.concatenate([LINE, np.zeros((40, 1))], axis=1)
    prior = np.diag([0.0, 0.0, 100.0])
    found = uncertainty(J, np.ones(40), size=10.0, known_noise=True, prior=prior)
    assert found.deviations[2] == pytest.approx(0.1)
    assert found.freedom == pytest.approx(38.0)


def test_other_powers_and_proportions_are_written_out():
    logs = np.array([True, True, True])
    for direction, text in (
        ([1.0, 0.5, 0.0], "a / b^2"),
        ([1.0, -1.0, 0.0], "a * b."),
        ([1.0, -2.0, 0.5], "proportions 0.5, -1, 0.25"),
    ):
        (sentence,) = describe_undetermined(np.array([direction]), ("a", "b", "c"), logs)
        assert text in sentence


def test_reduced_rows_span_the_same_space_with_few_entries():
    rows = RNG.standard_normal((2, 2)) @ np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    reduced = reduced_rows(rows)
    assert sorted(np.count_nonzero(np.abs(reduced) > 1e-12, axis=1)) == [1, 2]
    assert np.linalg.matrix_rank(np.concatenate([rows, reduced])) == 2


def test_fewer_data_than_parameters_are_refused():
    with pytest.raises(InputError, match="2 measured coordinates for 2 parameters"):
        uncertainty(np.eye(2), np.zeros(2), size=1.0, known_noise=False)
