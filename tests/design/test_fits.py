"""The result of a fit: files, resumption, held-out measurements, warnings, and its cost."""

import json
from functools import cache

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.design import Fit, MarkerRecording
from pliant.optimisation import GaussNewton

DT, STEPS, NOISE = 0.01, 12, 1e-4
NAMES = ["body.E", "body.nu", "body.density", "damping.stiffness"]
TRUE = {"E": 3e4, "nu": 0.3, "density": 1100.0}


def block(*, damping=0.02, name="block", **material):
    return pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.04, 0.02)),
        divisions=(2, 1),
        order=1,
        thickness=0.02,
        name=name,
        material=pl.Material(**{"E": 2e4, "nu": 0.4, "density": 1000.0, **material}),
        damping=pl.Damping(stiffness=damping),
        supports=[pl.Support(region="x-")],
        gravity=(0.0, -9.81),
        actuators={"force": pl.actuators.Thrust(point=(0.04, 0.01))},
        effectors={"tip": pl.Effector(point=(0.04, 0.02))},
    )


@cache
def recordings():
    model, rng = pl.ImplicitEuler(block(damping=0.01, **TRUE), dt=DT), np.random.default_rng(5)
    weights, out = model.body.locate(np.array([(0.04, 0.02), (0.02, 0.0)])), []
    for k in range(3):
        controls = np.array([[0.3 * k, 0.1 * k - 0.1]] * STEPS)
        states = pl.simulate(model, controls).states
        q = states[:, : model.space.n_dofs].reshape(STEPS + 1, -1, 2)
        positions = np.einsum("mn,tnd->tmd", weights.toarray(), q)
        positions += NOISE * rng.standard_normal(positions.shape)
        times, points = DT * np.arange(STEPS + 1), [(0.04, 0.02), (0.02, 0.0)]
        out.append(
            MarkerRecording(
                times=times,
                positions=positions,
                points=points,
                markers=["tip", "middle"],
                controls=controls,
                noise=NOISE,
            )
        )
    return out


@cache
def model():
    return pl.ImplicitEuler(block(), dt=DT, design=NAMES)


@cache
def fit():
    return pl.identify(model(), recordings()[:2], NAMES, held_out=recordings()[2])


def test_held_out_measurements_are_predicted_to_the_noise():
    assert [part.name for part in fit().predictions] == ["recording 1", "recording 2"]
    (held_out,) = fit().held_out
    assert held_out.rms == pytest.approx(NOISE, rel=0.3)
    at_start = pl.identify(model(), recordings()[:2], NAMES, iterations=1, method="cmaes")
    assert not at_start.status.ok
    assert "not converged" in at_start.status.text
    assert fit().status.ok
    assert not fit().notes


def test_a_wrong_model_is_reported():
    """A model with a fixed wrong density leaves residuals that are no noise."""
    heavy = pl.ImplicitEuler(block(density=2000.0), dt=DT, design=["body.E"])
    found = pl.identify(heavy, recordings()[:2], ["body.E"])
    notes = " ".join(found.notes)
    assert "times the given noise" in notes
    assert "are correlated" in notes
    assert found.estimates.noise > 2.0


def test_a_value_at_its_bound_is_reported():
    variable = pl.problem.Variable("body.E", lower=1e4, upper=2.2e4)
    found = pl.identify(model(), recordings()[:2], [variable])
    assert found.values["body.E"] == pytest.approx(2.2e4)
    assert "body.E is at its bound" in found.notes[0]


def test_intervals_of_logarithms_and_their_correlation():
    found = fit()
    lower, upper = found.intervals["body.E"]
    assert lower * upper == pytest.approx(found.values["body.E"] ** 2)
    lower, upper = found.intervals["damping.stiffness"]
    assert 0.5 * (lower + upper) == pytest.approx(found.values["damping.stiffness"])
    assert found.names == tuple(NAMES)
    np.testing.assert_allclose(found.correlation, found.correlation.T)
    np.testing.assert_allclose(np.diag(found.correlation), 1.0)
    assert found.units["body.E"] == "Pa"


def test_gauss_newton_needs_ten_times_fewer_simulations_than_cma_es():
    """Simulations until the value is within 1 of its minimum: the distance that the noise moves
    it."""
    names, recording = ["body.E", "body.nu", "damping.stiffness"], recordings()[1]
    exact = pl.identify(model(), recording, names)
    least = exact.history[-1].value

    def simulations(found):
        return next(row.simulations for row in found.history if row.value < least + 1.0)

    options = {"method": "cmaes", "iterations": 60, "intervals": False}
    by_strategy = pl.identify(model(), recording, names, **options)
    assert by_strategy.correlation is None
    assert simulations(by_strategy) > 10.0 * simulations(exact)


def test_a_saved_fit_is_loaded_with_all_its_numbers(tmp_path):
    fit().save(tmp_path)
    loaded = Fit.load(tmp_path, model())
    assert loaded.summary() == fit().summary()
    assert loaded.intervals == fit().intervals
    assert loaded.robot.material == fit().robot.material
    np.testing.assert_array_equal(loaded.correlation, fit().correlation)
    np.testing.assert_array_equal(loaded.iterates["body.E"], fit().iterates["body.E"])
    for mine, theirs in zip(loaded.held_out, fit().held_out, strict=True):
        np.testing.assert_array_equal(mine.residuals, theirs.residuals)
    with pytest.raises(InputError, match=r"without its model.*Fit.load\(folder, model\)"):
        _ = Fit.load(tmp_path).robot
    other = pl.ImplicitEuler(block(density=900.0), dt=DT, design=NAMES)
    with pytest.raises(InputError, match="of another model: it differs in material"):
        Fit.load(tmp_path, other)
    with pytest.raises(InputError, match=r"does not exist.*identify\(\.\.\.\)"):
        Fit.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"history"', '"story"'),
        lambda text: text.replace('"markers"', '"makers"'),
        lambda text: text.replace('"tip"', "3, 4"),
        lambda text: text.replace('"body.nu"', '"body.E"').replace('"noise"', '"nose"'),
    ],
)
def test_damaged_files_are_refused(tmp_path, damage):
    fit().save(tmp_path)
    file = tmp_path / "fit.json"
    file.write_text(damage(file.read_text()))
    with pytest.raises(InputError, match=r"fit\.json is damaged"):
        Fit.load(tmp_path)


@pytest.mark.parametrize("method", ["gauss_newton", "adam"])
def test_an_interrupted_fit_is_resumed_bit_for_bit(tmp_path, method):
    options = {"method": method, "offsets": 0.01, "progress": False}
    whole = pl.identify(model(), recordings()[:2], NAMES, iterations=4, **options)

    def interrupt(what, done, total):
        if done == 2:
            raise KeyboardInterrupt

    part = pl.identify(
        model(),
        recordings()[:2],
        NAMES,
        **{**options, "folder": tmp_path, "iterations": 4, "progress": interrupt},
    )
    assert len(part.history) == 3
    assert "interrupted" in part.status.text
    assert part.correlation is None
    assert "no intervals. Continue it with resume=True" in part.notes[0]
    with pytest.raises(InputError, match="already has"):
        pl.identify(model(), recordings()[:2], NAMES, folder=tmp_path, **options)
    with pytest.raises(InputError, match="differs in"):
        pl.identify(model(), recordings(), NAMES, folder=tmp_path, resume=True, **options)
    resumed = pl.identify(
        model(), recordings()[:2], NAMES, iterations=4, folder=tmp_path, resume=True, **options
    )
    np.testing.assert_array_equal(resumed.params, whole.params)
    assert resumed.intervals == whole.intervals
    assert resumed.offsets == whole.offsets
    np.testing.assert_array_equal(resumed.iterates["body.E"], whole.iterates["body.E"])
    assert Fit.load(tmp_path).intervals == whole.intervals


def test_a_first_fit_to_one_measurement_saves_simulations():
    """Both fits end at the same values. The second recording has an unknown offset, which the first
    fit leaves at its start."""
    options = {"offsets": 0.01, "tolerance": 1e-10}
    whole = pl.identify(model(), recordings(), NAMES, **options)
    staged = pl.identify(model(), recordings(), NAMES, fit_first=1, **options)
    for name in NAMES:
        assert staged.values[name] == pytest.approx(whole.values[name], rel=1e-4)
        assert staged.intervals[name] == pytest.approx(whole.intervals[name], rel=1e-3)
    assert staged.offsets == pytest.approx(whole.offsets, abs=1e-6)  # [s]
    assert staged.status.iterations < whole.status.iterations
    assert "with 1 of 3 measurements" in staged.status.text
    assert staged.history[0].simulations > whole.history[0].simulations
    assert staged.simulations < whole.simulations


def test_a_fit_that_is_interrupted_in_its_first_part_is_resumed(tmp_path):
    options = {"fit_first": 1, "iterations": 6, "progress": False}
    whole = pl.identify(model(), recordings()[:2], NAMES, **options)

    def interrupt(what, done, total):
        if done == 2:
            raise KeyboardInterrupt

    interrupted = {**options, "folder": tmp_path, "progress": interrupt}
    part = pl.identify(model(), recordings()[:2], NAMES, **interrupted)
    assert part.interrupted
    assert len(part.history) == 3
    again = {**options, "folder": tmp_path, "resume": True}
    with pytest.raises(InputError, match="differs in"):
        pl.identify(model(), recordings(), NAMES, **again)
    resumed = pl.identify(model(), recordings()[:2], NAMES, **again)
    np.testing.assert_array_equal(resumed.params, whole.params)
    assert [row.simulations for row in resumed.history] == [
        row.simulations for row in whole.history
    ]
    assert resumed.status == whole.status


def test_a_first_fit_is_not_continued_when_the_fit_to_all_is_resumed(tmp_path):
    options = {"fit_first": 1, "progress": False, "folder": tmp_path, "workers": 1}
    short = pl.identify(model(), recordings()[:2], NAMES, iterations=1, **options)
    assert "before, 1 iteration with" in short.status.text
    longer = pl.identify(model(), recordings()[:2], NAMES, iterations=8, resume=True, **options)
    assert "before, 1 iteration with" in longer.status.text
    assert len(longer.history) > 2


@pytest.mark.parametrize("method", ["gauss_newton", "cmaes"])
def test_values_in_the_iterations_lead_from_the_start_to_the_fit(method):
    found = pl.identify(
        model(), recordings()[0], NAMES[:2], method=method, iterations=3, offsets=0.01
    )
    best = min(range(len(found.history)), key=lambda k: found.history[k].value)
    assert found.iterates.keys() == {"body.E", "body.nu"}
    for name, rows in found.iterates.items():
        assert rows.shape == (len(found.history), 1)
        assert rows[0, 0] == pytest.approx(found.start[name])
        assert rows[best, 0] == found.values[name]


def test_settings_of_a_method_are_kept():
    found = pl.identify(model(), recordings()[:1], NAMES[:1], method=GaussNewton(damping=0.1))
    assert found.settings["damping"] == 0.1
    assert found.method == "gauss_newton"


def test_the_report_has_tables_plots_and_an_animation(tmp_path):
    page = fit().report(tmp_path, small=True).read_text()
    for title in ("Parameters", "Measurements", "Residuals of the markers", "Motion"):
        assert f"<h2>{title}</h2>" in page
    for picture in (
        "Correlations",
        "Residuals of recording 1 (fitted)",
        "Convergence",
        "Values in the iterations",
    ):
        assert f'alt="{picture}"' in page
    assert (tmp_path / "animation.gif").exists()
    assert Fit.load(tmp_path).values == fit().values
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["fit"]["values"] == fit().values
    assert tuple(result["fit"]["intervals"]["body.E"]) == fit().intervals["body.E"]
    assert "Correlations" not in fit()._repr_html_()
    assert "body.E" in fit()._repr_html_()


def test_a_loaded_fit_without_intervals_has_a_report(tmp_path):
    found = pl.identify(model(), recordings()[0], ["body.E"], iterations=1, intervals=False)
    found.save(tmp_path / "fit")
    page = Fit.load(tmp_path / "fit").report(tmp_path / "report").read_text()
    assert "<h2>Parameters</h2>" in page
    assert "<h2>Motion</h2>" not in page
    assert 'class="status bad"' in page


def test_show_prints_values_and_errors(capsys):
    fit().show()
    text = capsys.readouterr().out
    assert "body.E = 3.03e+04 Pa [" in text
    assert "recording (held out): rms error" in text
