"""Recordings and their files: the two layouts, units, missing samples, and wrong files."""

import numpy as np
import pytest

import pliant as pl
from pliant.core import InputError
from pliant.design import MarkerRecording, StaticTest, load_recordings, load_static_tests

WIDE = """time,tip.x,tip.y,base.x,base.y,u.jet
0,0.1,0,0,0,1
0.01,0.11,0.01,,,2
0.03,0.12,0.02,0,0,3
"""


def written(folder, text, name="take.csv"):
    path = folder / name
    path.write_text(text)
    return path


def test_wide_layout_gives_times_positions_and_controls(tmp_path):
    (read,) = load_recordings(written(tmp_path, WIDE))
    assert read.markers == ("tip", "base")
    assert read.times.tolist() == [0.0, 0.01, 0.03]
    assert read.positions[:, 0].tolist() == [[0.1, 0.0], [0.11, 0.01], [0.12, 0.02]]
    assert np.isnan(read.positions[1, 1]).all()
    assert read.missing == pytest.approx(1 / 6)
    assert read.controls["jet"].tolist() == [1.0, 2.0, 3.0]
    assert read.points is None


def test_long_layout_equals_the_wide_one(tmp_path):
    rows = ["time,marker,x,y,u.jet", "0,tip,0.1,0,1", "0,base,0,0,1", "0.01,tip,0.11,0.01,2"]
    rows += ["0.03,base,0,0,3", "0.03,tip,0.12,0.02,3"]
    (long,) = load_recordings(written(tmp_path, "\n".join(rows), "long.csv"))
    (wide,) = load_recordings(written(tmp_path, WIDE))
    assert long.markers == wide.markers
    np.testing.assert_array_equal(long.positions, wide.positions)
    np.testing.assert_array_equal(long.times, wide.times)
    np.testing.assert_array_equal(long.controls["jet"], wide.controls["jet"])


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("time,tip.x,tip.y\n0,100,5\n0.01,110,6\n", "mm"),
        ("time [ms],tip.x [mm],tip.y [mm]\n0,100,5\n10,110,6\n", None),
        ("time,tip.x,tip.y\nms,mm,mm\n0,100,5\n10,110,6\n", None),
        ("# a comment\n\nTime;tip.x;tip.y\ns;mm;mm\n0;100,0;5,0\n0,01;110,0;6\n", None),
        ("time\ttip.x [cm]\ttip.y [cm]\n0\t10\t0.5\n0.01\t11\t0.6\n", None),
        ("\ufefftime,tip.X (mm),tip.Y (mm)\n0,100,5\n0.01,110,6\n", None),
    ],
)
def test_units_separators_and_decimal_commas(tmp_path, text, units):
    (read,) = load_recordings(written(tmp_path, text), units=units)
    np.testing.assert_allclose(read.times, [0.0, 0.01])
    np.testing.assert_allclose(read.positions[:, 0], [[0.1, 0.005], [0.11, 0.006]])


def test_both_characters_for_micro_and_rows_without_content(tmp_path):
    for micro in ("\u00b5m", "\u03bcm"):
        text = f"time,a.x [{micro}],a.y [{micro}]\n0,100,200\n,,\n1,100,200\n,,\n"
        (read,) = load_recordings(written(tmp_path, text))
        np.testing.assert_allclose(read.positions, [[[1e-4, 2e-4]], [[1e-4, 2e-4]]])


def test_control_units_become_si_units(tmp_path):
    text = "time,tip.x,tip.y,u.chamber [kPa]\n0,0.1,0,1.5\n0.01,0.1,0,2\n"
    (read,) = load_recordings(written(tmp_path, text))
    assert read.controls["chamber"].tolist() == [1500.0, 2000.0]


def test_rest_points_come_from_the_file_the_first_sample_or_a_dict(tmp_path):
    rest = WIDE.replace("0,0.1,0,0,0,1", "rest,0.1,0.005,0,0.005,\n0,0.1,0,0,0,1", 1)
    (read,) = load_recordings(written(tmp_path, rest))
    assert read.points.tolist() == [[0.1, 0.005], [0.0, 0.005]]
    (read,) = load_recordings(written(tmp_path, WIDE), points="first")
    assert read.points.tolist() == [[0.1, 0.0], [0.0, 0.0]]
    points = {"base": (0.0, 0.0), "tip": (0.2, 0.0)}
    (read,) = load_recordings(written(tmp_path, WIDE), points=points, noise=1e-4)
    assert read.points.tolist() == [[0.2, 0.0], [0.0, 0.0]]
    assert read.noise.tolist() == [1e-4, 1e-4]


def test_patterns_give_one_recording_for_each_file_in_order(tmp_path):
    for name in ("b.csv", "a.csv"):
        written(tmp_path, WIDE, name)
    read = load_recordings(str(tmp_path / "*.csv"))
    assert [one.name for one in read] == ["a", "b"]


WRONG = {  # what: (text, arguments, parts of the message)
    "no time": ("t,tip.x,tip.y\n0,1,2\n", {}, ("no column 'time'", "Name the column")),
    "unknown column": ("time,tip.x,tip.y,speed\n0,1,2,3\n", {}, ("'speed'", "Rename or remove")),
    "no marker": ("time,u.jet\n0,1\n", {}, ("no marker", "tip.x")),
    "no y": ("time,tip.x\n0,1\n", {}, ("'tip.y'", "coordinates")),
    "mixed dimension": ("time,a.x,a.y,a.z,b.x,b.y\n0,1,2,3,4,5\n", {}, ("'b.z'", "all 3")),
    "twice": ("time,tip.x,tip.x\n0,1,2\n", {}, ("column 3", "own name")),
    "no rows": ("time,tip.x,tip.y\n", {}, ("column names only", "Add rows")),
    "empty": ("\n", {}, ("is empty", "Write")),
    "cell count": ("time,tip.x,tip.y\n0,1,2\n1,2\n", {}, ("line 3", "2 cells for 3 columns")),
    "text": ("time,tip.x,tip.y\n0,1,2\n1,left,2\n", {}, ("line 3", "'left'", "no number")),
    "underscore": ("time,tip.x,tip.y\n0,1_0,2\n", {}, ("line 2", "'1_0'", "no number")),
    "infinite": ("time,tip.x,tip.y\n0,inf,2\n", {}, ("line 2", "infinite")),
    "order": ("time,tip.x,tip.y\n0,1,2\n0.2,1,2\n0.1,1,2\n", {}, ("line 4", "not after 0.2 s")),
    "repeated": ("time,tip.x,tip.y\n0,1,2\n0,1,2\n", {}, ("line 3", "not after")),
    "no time in row": ("time,tip.x,tip.y\n0,1,2\n,1,2\n", {}, ("line 3", "time is missing")),
    "control gap": (
        "time,tip.x,tip.y,u.a\n0,1,2,3\n1,1,2,\n",
        {},
        ("line 3", "'u.a' is missing", "only positions"),
    ),
    "gaps": ("time,a.x,a.y,b.x,b.y\n0,1,2,,\n1,1,2,,\n", {}, ("'b' has no sample", "Remove")),
    "unit": ("time,tip.x [inch],tip.y\n0,1,2\n", {}, ("'inch'", "tip.x")),
    "other unit": ("time,a.x [mm],a.y [mm]\n0,1,2\n", {"units": "m"}, ("is in mm", "Leave out")),
    "unknown units": ("", {"units": "feet"}, ("no unit 'feet'", "choose one of")),
    "layout": ("time,a.x,a.y\n0,1,2\n", {"layout": "long"}, ("no column 'marker'", "'long'")),
    "unknown layout": ("", {"layout": "tall"}, ("no layout 'tall'", "wide")),
    "rest gap": ("time,a.x,a.y\nrest,1,\n0,1,2\n", {}, ("line 2", "rest point of 'a'")),
    "point name": (
        "time,a.x,a.y\n0,1,2\n",
        {"points": {"b": (0, 0)}},
        ("rest point for 'b'", "no such marker"),
    ),
    "point count": (
        "time,a.x,a.y,c.x,c.y\n0,1,2,3,4\n",
        {"points": {"a": (0, 0)}},
        ("2 markers, but 1 rest point", "'c'"),
    ),
    "first gap": ("time,a.x,a.y\n0,,\n1,1,2\n", {"points": "first"}, ("missing in the first",)),
    "noise": ("time,a.x,a.y\n0,1,2\n", {"noise": 0.0}, ("noise is 0 m", "positive")),
    "noise name": ("time,a.x,a.y\n0,1,2\n", {"noise": {"b": 1.0}}, ("no noise for the marker",)),
    "long twice": ("time,marker,x,y\n0,a,1,2\n0,a,1,2\n", {}, ("line 3", "two positions")),
    "long order": ("time,marker,x,y\n1,a,1,2\n0,a,1,2\n", {}, ("line 3", "not after 1 s")),
    "long column": ("time,marker,x,y,w\n0,a,1,2,3\n", {}, ("'w'", "Rename or remove")),
    "long axes": ("time,marker,x,z\n0,a,1,2\n", {}, ("no columns 'x' and 'y'",)),
    "long name": ("time,marker,x,y\n0,,1,2\n", {}, ("line 2", "no name")),
    "long controls": (
        "time,marker,x,y,u.a\n0,p,1,2,1\n0,q,1,2,2\n",
        {},
        ("line 3", "controls at 0 s differ"),
    ),
    "long rest": ("time,marker,x,y\nrest,a,1,2\n0,a,1,2\n0,b,1,2\n", {}, ("'b' has no rest",)),
    "huge": ("time,a.x,a.y\n0,1e12,2\n", {}, ("wrong unit",)),
    "two rests": ("time,a.x,a.y\nrest,1,2\nrest,1,3\n0,1,2\n", {}, ("line 3", "second row")),
    "long two rests": (
        "time,marker,x,y\nrest,a,1,2\nrest,a,1,3\n0,a,1,2\n",
        {},
        ("line 3", "two rest points"),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_files_are_refused_in_one_clear_sentence(tmp_path, what):
    text, arguments, parts = WRONG[what]
    path = written(tmp_path, text)
    with pytest.raises(InputError) as error:
        load_recordings(path, **arguments)
    message = str(error.value)
    assert all(part in message for part in parts), message
    assert "units" in arguments or "layout" in arguments or path.name in message


def test_files_that_are_no_text_or_do_not_exist_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"No file matches .*\*\.csv"):
        load_recordings(str(tmp_path / "*.csv"))
    with pytest.raises(InputError, match="no regular file"):
        load_recordings(tmp_path)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="no text in UTF-8"):
        load_recordings(tmp_path / "binary.csv")
    with pytest.raises(InputError, match="list of files is empty"):
        load_recordings([])
    with pytest.raises(InputError, match="give a path or a pattern"):
        load_recordings(3)


def test_files_above_the_size_limit_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("pliant.design.recording_table.MAX_BYTES", 10)
    with pytest.raises(InputError, match=r"larger than .* Split the recording"):
        load_recordings(written(tmp_path, WIDE))


ARRAYS = {"times": [0.0, 1.0], "positions": [[[0.0, 0.0]], [[1.0, 0.0]]]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"times": [0.0, 0.0]}, "time 1 is 0 s, not after"),
        ({"times": [0.0]}, r"positions have shape \(2, 1, 2\); give \(1,"),
        ({"times": [], "positions": np.zeros((0, 1, 2))}, "has no times"),
        ({"times": [0.0, np.nan]}, "it must be finite"),
        ({"positions": np.zeros((2, 2))}, r"shape \(2, 2\)"),
        ({"positions": "none"}, "give numbers"),
        ({"positions": np.ones((2, 1, 2)) + 1j}, "give numbers"),
        ({"positions": np.full((2, 1, 2), np.nan)}, "no sample at all"),
        ({"markers": ["a", "b"]}, "positions of 1 marker and 2 different names"),
        ({"markers": "tip"}, "give a list of names"),
        ({"markers": [""]}, "give a list of names"),
        ({"points": [(0.0, 0.0), (1.0, 0.0)]}, r"shape \(1, 2\)"),
        ({"points": [(0.0, np.nan)]}, "must be finite"),
        ({"noise": -1.0}, "must be a positive"),
        ({"noise": [1.0, 2.0]}, r"shape \(1,\)"),
        ({"noise": [0.0]}, "must be positive"),
        ({"offset": np.inf}, "must be finite"),
        ({"offset": "late"}, "must be a number"),
    ],
)
def test_recordings_of_inconsistent_arrays_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        MarkerRecording(**{**ARRAYS, **changes})


def test_static_tests_are_read_with_units(tmp_path):
    load = pl.PointLoad(point=(0.1, 0.0), force=(0.0, -1.0))
    text = "load [mN],displacement [mm],u.line\n100,1.5,2\n200,3,2\n"
    (test,) = load_static_tests(
        written(tmp_path, text), load=load, effector="tip", direction=(0, -2)
    )
    np.testing.assert_allclose(test.factors, [0.1, 0.2])
    np.testing.assert_allclose(test.values, [[0.0015], [0.003]])
    assert test.controls["line"].tolist() == [2.0, 2.0]
    assert test.direction.tolist() == [0.0, -1.0]
    (test,) = load_static_tests(
        written(tmp_path, "u.chamber [kPa],volume [ml]\n1,2\n2,4\n"), cavity="chamber"
    )
    np.testing.assert_allclose(test.values, [[2e-6], [4e-6]])
    (test,) = load_static_tests(written(tmp_path, "u.a,x,y\n1,2,3\n"), point=(0.0, 0.0), units="cm")
    np.testing.assert_allclose(test.values, [[0.02, 0.03]])


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("load,displacement\n1,2\n", {"effector": "a", "direction": (0, 1)}, "load and factors"),
        ("u.a,displacement\n1,\n", {"effector": "a", "direction": (0, 1)}, "line 2: .*is missing"),
        ("u.a,bend\n1,2\n", {"effector": "a"}, "'bend' is not"),
        ("u.a\n1\n", {"effector": "a"}, "in one way"),
        ("u.a,x,y,volume\n1,2,3,4\n", {"effector": "a"}, "in one way"),
        ("u.a,x,x\n1,2,3\n", {"effector": "a"}, "two columns 'x'"),
        ("u.a,x,y\n1,2,3\n", {}, "exactly one of effector"),
        ("u.a,displacement\n1,2\n", {"effector": "a"}, "shape"),
        ("u.a,displacement\n1,2\n", {"effector": "a", "direction": (0, 0)}, "direction is zero"),
        ("u.a,volume [m]\n1,2\n", {"cavity": "a"}, "unit 'm'"),
        ("u.a,volume\n1,2\n", {"effector": "a", "direction": (0, 1)}, "a column 'volume'"),
        ("u.a,displacement\n1,2\n", {"cavity": "a"}, "no column 'volume'"),
        ("displacement\n1\n", {"effector": "a", "direction": (0, 1)}, "neither a load nor"),
    ],
)
def test_wrong_static_tests_are_refused(tmp_path, text, arguments, message):
    with pytest.raises(InputError, match=message):
        load_static_tests(written(tmp_path, text), **arguments)


def test_loads_of_static_tests_are_constant_and_have_factors():
    moving = pl.PointLoad(point=(0.0, 0.0), force=lambda t: (0.0, t))
    with pytest.raises(InputError, match="function of time"):
        StaticTest(values=[[0.0, 0.0]], load=moving, factors=[1.0], effector="tip")
    load = pl.PointLoad(point=(0.0, 0.0), force=(0.0, 1.0))
    with pytest.raises(InputError, match=r"shape \(1,\)"):
        StaticTest(values=[[0.0, 0.0]], load=load, factors=[1.0, 2.0], effector="tip")
