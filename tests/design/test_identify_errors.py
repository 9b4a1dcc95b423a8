"""Clear errors of identification for wrong models, variables and measurements."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.design import MarkerRecording, StaticTest
from pliant.design.identification import check_fit

PLATE = {
    "shape": pl.geometry.Rectangle(size=(0.04, 0.02)),
    "divisions": (2, 1),
    "order": 1,
    "supports": [pl.Support(region="x-")],
    "gravity": (0.0, -9.81),
    "material": pl.Material(E=3e4, nu=0.4, density=1000.0),
    "actuators": {"force": pl.actuators.Thrust(point=(0.04, 0.01))},
    "effectors": {"tip": pl.Effector(point=(0.04, 0.02))},
}
ROBOT = pl.Robot(**PLATE)
MODEL = pl.ImplicitEuler(ROBOT, dt=0.01, design=["body.E", "body.density"])


def recording(n=6, **changes):
    parts = {
        "times": 0.01 * np.arange(n),
        "positions": np.tile([[0.04, 0.02]], (n, 1, 1)),
        "markers": ["tip"],
    }
    return MarkerRecording(**{**parts, **changes})


def identify(measurements=None, variables=("body.E",), model=MODEL, **options):
    given = recording() if measurements is None else measurements
    return pl.identify(model, given, list(variables), progress=False, **options)


def test_a_closed_loop_is_refused_with_its_model_as_the_remedy():
    seen = pl.learning.PartObserver(parts=("velocity",))
    controller = pl.learning.MLP.for_model(MODEL, seen, hidden=(2,), scale=1.0)
    with pytest.raises(InputError, match="Pass its model, the ImplicitEuler inside"):
        identify(model=pl.learning.ClosedLoop(MODEL, seen, controller))


def test_a_model_without_parameters_names_the_design_that_is_needed():
    with pytest.raises(InputError, match=r"no parameters to fit.*design=\['body.E', 'body.nu'\]"):
        identify(model=pl.ImplicitEuler(ROBOT, dt=0.01), variables=["body.E", "body.nu"])


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (["body.e"], r"no parameter 'body.e'.*did you mean 'body.E'"),
        (["body.nu"], r"design=\['body.E', 'body.density', 'body.nu'\]"),
        (["controls"], "controls are no variable of a fit"),
        (["body.E", "body.E"], "given twice"),
        ([], "no variables"),
        ([3], "A variable is '3'"),
        ("body.E", "The variables"),
        ([pl.problem.Variable("body.E", lower=4e4, upper=5e4)], "outside its bounds"),
        ([pl.problem.Variable("body.E", start=-1e5)], "starts at -100000, .* needs a positive"),
    ],
)
def test_variables_that_do_not_fit_the_model(variables, message):
    with pytest.raises(InputError, match=message):
        pl.identify(MODEL, recording(), variables)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"markers": ["top"]}, "no effector of that name"),
        ({"points": [[0.5, 0.5]]}, "outside"),
        ({"positions": np.zeros((6, 1, 3))}, "3 coordinates"),
        ({"times": np.arange(6) - 1.0}, "starts at -1 s"),
        ({"times": 1e3 * np.arange(6)}, "in another unit"),
        ({"controls": {"pull": np.zeros(6)}}, "a control 'pull'"),
        ({"controls": np.zeros((2, 2))}, "controls for 2 steps"),
        ({"controls": np.zeros((6, 2))}, "lasts 5 steps .* controls for 6 steps.*give columns"),
        ({"positions": np.tile([[40.0, 20.0]], (6, 1, 1))}, "'tip' of .*44.* m or more.*the unit"),
        ({"positions": np.tile([[0.04, 20.0]], (6, 1, 1))}, "Check the unit"),
        ({"times": 1e-4 * np.arange(6)}, "6 samples .* less than one step of 0.01 s"),
        ({"controls": lambda t: np.full(2, np.nan)}, "its control"),
        ({"x0": np.zeros(3)}, "first state"),
        (
            {
                "positions": 1e3 * np.tile(ROBOT.body().rest.reshape(-1, 2)[[0, 5]], (6, 1, 1)),
                "points": ROBOT.body().rest.reshape(-1, 2)[[0, 5]],
                "markers": None,
            },
            "Check the unit",
        ),
    ],
)
def test_recordings_that_do_not_fit_the_model(changes, message):
    with pytest.raises(InputError, match=message):
        identify(recording(**changes))


def test_units_of_another_quantity_than_the_control(tmp_path):
    file = tmp_path / "take.csv"
    file.write_text(
        "time,tip.x,tip.y,u.force 1 [kPa],u.force 2 [mN]\n0,0.04,0.02,0,0\n0.01,,,1,1\n"
    )
    with pytest.raises(InputError, match="'force 1' is in kPa, but that of the robot is in N"):
        identify(pl.load_recordings(file))
    file.write_text("u.force 1 [N],u.force 2 [rad],displacement\n0,1,0.001\n0,2,0.002\n")
    test = pl.design.load_static_tests(file, effector="tip", direction=(0, 1))
    with pytest.raises(InputError, match="'force 2' is in rad, but that of the robot is in N"):
        identify(test)


def test_a_recording_whose_robot_starts_elsewhere_has_an_initial_state():
    falling = pl.Robot(**{**PLATE, "supports": []})
    model = pl.ImplicitEuler(falling, dt=0.01, design=["body.E"])
    shift = np.zeros(model.space.size)
    shift[0 : model.space.n_dofs : 2] = 5.0
    far = recording(positions=np.tile([[5.04, 0.02]], (6, 1, 1)), x0=model.initial_state() + shift)
    check_fit(model, far, ["body.E"])


def test_no_measurement_may_be_held_out():
    _, others = check_fit(MODEL, recording(), ["body.E"], held_out=None)
    assert others == ()


def test_a_measurement_is_given_once():
    one = recording()
    with pytest.raises(InputError, match="'recording' is given twice"):
        identify([one, one])
    with pytest.raises(InputError, match="both to fit and to hold out"):
        identify(one, held_out=one)


def test_displacements_in_millimetres_without_their_unit():
    test = StaticTest(
        values=[1.0, 2.0],
        controls={"force 1": [0.0, 0.0], "force 2": [0.1, 0.2]},
        effector="tip",
        direction=(0.0, 1.0),
    )
    with pytest.raises(InputError, match=r"displacement of 2 m, .* 0\.0447 m large"):
        identify(test)


def test_all_measurements_held_out():
    with pytest.raises(InputError, match="All measurements are held out"):
        identify([], held_out=recording())


def test_smoothness_of_no_parameter_is_refused_before_the_fit():
    smooth = pl.problem.FieldSmoothness(variable="cells.E")
    with pytest.raises(InputError, match="about no parameter of the model"):
        check_fit(MODEL, recording(), ["body.E"], terms=[smooth])


def test_a_folder_that_is_a_file_is_refused_before_the_fit(tmp_path):
    (tmp_path / "notes").write_text("")
    with pytest.raises(InputError, match=r"because .*notes is a file"):
        identify(folder=tmp_path / "notes" / "fit")


def test_times_as_numbers_of_frames():
    with pytest.raises(InputError, match="numbers of frames"):
        identify(recording(n=12, times=np.arange(12.0)))


def test_too_few_data():
    positions = np.full((6, 1, 2), np.nan)
    positions[2] = 0.04
    with pytest.raises(InputError, match="2 measured coordinates for 2 unknowns"):
        identify(recording(positions=positions), variables=["body.E", "body.density"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measurements": []}, "no measurements"),
        ({"measurements": [np.zeros(3)]}, "A measurement is"),
        ({"measurements": "mocap/*.csv"}, "The measurements"),
        ({"noise": -1.0}, "noise"),
        ({"offsets": True}, "largest time offset"),
        ({"offsets": -0.1}, "largest time offset"),
        ({"method": "newton"}, "no optimisation method"),
        ({"iterations": 0}, "number of iterations"),
        ({"terms": [pl.Goal(effector="tip", target=(0, 0), time=0.1)]}, "terms of the parameters"),
        ({"held_out": [3]}, "A measurement is '3'"),
        ({"workers": 0}, "number of workers"),
        ({"resume": True}, "give folder"),
        ({"fit_first": 0}, "fit_first is '0'"),
        ({"fit_first": True}, "fit_first is 'True'"),
        ({"fit_first": 1}, "there is 1 measurement"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(InputError, match=message):
        identify(**options)


def test_noise_of_some_measurements_only():
    with pytest.raises(InputError, match=r"is known, but that of .* is not"):
        identify([recording(noise=1e-3), recording()])


def test_static_tests_on_particles_and_with_shape_parameters():
    test = StaticTest(
        values=[0.001, 0.002],
        load=pl.PointLoad(point=(0.04, 0.01), force=(0.0, -1.0)),
        factors=[0.1, 0.2],
        effector="tip",
        direction=(0.0, -1.0),
    )
    model = pl.MaterialPoint(ROBOT, dt=0.005, cell=0.01, design=["body.E"])
    with pytest.raises(InputError, match="needs equilibria"):
        identify(test, model=model)
    length = pl.design.Stretch(axis="x", value=0.04, lower=0.02, upper=0.08)
    robot = pl.Robot(**{**PLATE, "actuators": {}})
    shape = pl.design.ParametrisedRobot(make=robot, parameters={"length": length})
    with pytest.raises(InputError, match="cannot be fitted with shape parameters"):
        identify(test, ["shape.length"], model=shape.model(pl.Quasistatic))


def test_start_values_that_cannot_be_simulated():
    with pytest.raises(pl.StepError, match=r"The fit cannot start.*step 0"):
        identify(recording(controls=np.full((5, 2), 1e9)))
