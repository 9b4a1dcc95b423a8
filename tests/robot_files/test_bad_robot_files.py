"""Bad robot files are rejected with the key, the number and the remedy."""

import pytest
from texts import BOX

import pliant as pl
from pliant.robot_files import load_robot, load_task

# A valid file; each bad file has one change
VALID = f"""
gravity = [0, 0, -9.81]
{BOX}
[[supports]]
region = "x-"
[actuators.tendon]
type = "cable"
points = [[0, 0.01, 0.01], [0.1, 0.01, 0.01]]
limits = [0, 8]
[task]
dt = 0.01
controls = [1]
"""
SHAPE = 'shape = "box"\nsize = [0.1, 0.02, 0.02]\ndivisions = [4, 1, 1]'


def changed(old: str, new: str) -> str:
    """Return the valid file with one text replaced."""
    assert VALID.count(old) == 1
    return VALID.replace(old, new)


ROBOT_FILES = {
    "empty": ("", r"geometry: this is missing"),
    "cut short": (VALID[:60], r"not TOML.*line 5"),
    "not utf-8": (b"name = '\xe9'", r"UTF-8 text \(byte 8\)"),
    "too long": ("#" * 1_000_001, r"more than 1000000 bytes"),
    "too deep": ("a = " + "[" * 50_000, r"nested too deeply"),
    "duplicate section": (VALID + "[task]\n", r"not TOML.*twice"),
    "no material": (changed("[material]\nE = 1e5\nnu = 0.4\n", ""), r"material: this is missing"),
    "unknown section": (VALID + "[contact]\n", r"'contact'.*did you mean 'contacts'"),
    "unknown key": (
        changed("divisions", "division"),
        r"geometry.*'division'.*did you mean 'divisions'",
    ),
    "key with line break": (VALID + '["a\\nb"]\n', r"no key"),
    "unknown shape": (changed('"box"', '"bax"'), r"geometry.*bax.*did you mean 'box'"),
    "no shape": (
        changed(SHAPE, ""),
        r"shape, mesh, surface, silhouette, parts, point_masses, and has none",
    ),
    "two shapes": (
        changed('shape = "box"', 'shape = "box"\nmesh = "a.vtu"'),
        r"has shape and mesh",
    ),
    "text instead of number": (
        changed("1e5", '"soft"'),
        r'material\.E: this is "soft"; it must be a number',
    ),
    "true instead of number": (changed("1e5", "true"), r"material\.E: this is true"),
    "nan instead of number": (changed("1e5", "nan"), r"material\.E"),
    "date instead of number": (changed("1e5", "2020-01-01"), r"material\.E"),
    "too many divisions": (
        changed("[4, 1, 1]", "[1000000000000, 2, 2]"),
        r"geometry\.divisions: The divisions .* about 2.4e\+13 cells.*Choose fewer divisions",
    ),
    "gravity too large": (
        changed("[0, 0, -9.81]", "[0, 0, 1e308]"),
        r"The gravity is 1e\+308 m/s\^2; it must lie between 0 and 1e\+06",
    ),
    "short list": (
        changed("[0.1, 0.02, 0.02]", "[0.1, 0.02]"),
        r"geometry\.size\[2\]: this is missing",
    ),
    "long list": (changed("[0.1, 0.02, 0.02]", "[1, 1, 1, 1]"), r"geometry\.size.*shorter"),
    "nu of one half": (changed("nu = 0.4", "nu = 0.5"), r"material: Poisson's ratio is 0\.5"),
    "unknown law": (changed("nu = 0.4", 'nu = 0.4\nlaw = "hooke"'), r"material.*'hooke'"),
    "huge mesh": (changed("[4, 1, 1]", "[9999, 9999, 9999]"), r"over the limit"),
    "unknown region": (changed('"x-"', '"x"'), r"supports\[0\].*'x'.*Did you mean 'x-'"),
    "single brackets": (changed("[[supports]]", "[supports]"), r"supports.*double brackets"),
    "motion in the plane": (
        changed('"x-"', '"x-"\nmotion = { times = [0], values = [[0, 0]] }'),
        r"supports\[0\].*2 numbers.*3D",
    ),
    "unknown actuator": (changed('"cable"', '"cabel"'), r"actuators\.tendon.*did you mean 'cable'"),
    "actuator without type": (
        changed('type = "cable"', ""),
        r"actuators\.tendon: the key 'type' is missing",
    ),
    "cable with one point": (changed(", [0.1, 0.01, 0.01]", ""), r"actuators\.tendon.*has 1"),
    "cable with uneven points": (
        changed("[0.1, 0.01, 0.01]", "[0.1, 0.01]"),
        r"tendon\.points: row 1 has 2 numbers",
    ),
    "cable outside body": (
        changed("[0.1, 0.01, 0.01]", "[0.2, 0.01, 0.01]"),
        r"actuators\.tendon.*\[0\.2, 0\.01",
    ),
    "limits swapped": (changed("[0, 8]", "[8, 0]"), r"actuators\.tendon.*8"),
    "gravity in the plane": (changed("[0, 0, -9.81]", "[0, -9.81]"), r"gravity.*2 numbers.*3D"),
    "obstacle in the plane": (
        VALID + '[[contacts]]\ntype = "plane"\nnormal = [0, 1]\n',
        r"contacts\[0\].*3",
    ),
    "unknown obstacle": (
        VALID + '[[contacts]]\ntype = "plan"\n',
        r"contacts\[0\].*did you mean 'plane'",
    ),
    "load with wrong key": (
        VALID + '[[loads]]\nsurface = "x+"\nforce = [1, 0, 0]\n',
        r"loads\[0\].*'force'",
    ),
    "effector with surface and point": (
        VALID + '[effectors.tip]\nsurface = "x+"\npoint = [0, 0, 0]\n',
        r"effectors\.tip",
    ),
    "negative damping": (VALID + "[damping]\nmass = -1\n", r"damping.*-1"),
    "mesh from the web": (
        changed(SHAPE, 'mesh = "https://a.b/c.vtu"'),
        r"geometry\.mesh.*next to",
    ),
    "mesh with absolute path": (changed(SHAPE, 'mesh = "/etc/passwd"'), r"geometry\.mesh.*next to"),
    "mesh outside folder": (
        changed(SHAPE, 'mesh = "../../a.vtu"'),
        r"geometry\.mesh.*outside the folder",
    ),
    "missing mesh": (changed(SHAPE, 'mesh = "a.vtu"'), r"geometry.*no file.*a\.vtu"),
    "mesh with long name": (changed(SHAPE, f'mesh = "{5000 * "a"}"'), r"geometry"),
    "surface without cell": (
        changed(SHAPE, 'surface = "a.stl"'),
        r"geometry\.cell: this is missing",
    ),
    "part without size": (
        changed(SHAPE, 'parts = { arm = { shape = "box" } }'),
        r"geometry\.parts\.arm\.size",
    ),
    "zero dt": (changed("dt = 0.01", "dt = 0"), r"task.*dt is 0 s"),
    "no dt": (changed("dt = 0.01", ""), r"task.*needs a time step"),
    "unknown rule": (
        changed("dt = 0.01", 'dt = 0.01\nrule = "bdf3"'),
        r"task.*did you mean 'bdf2'",
    ),
    "zero steps": (changed("dt = 0.01", "dt = 0.01\nsteps = 0"), r"task.*steps is 0"),
    "too many controls": (
        changed("controls = [1]", "controls = [1, 2]"),
        r"task.*2 numbers.*1 \(tendon\)",
    ),
    "control outside limits": (changed("controls = [1]", "controls = [9]"), r"task.*9 .*0 to 8"),
    "keyframes of different lengths": (
        changed("[1]\n", "{ times = [0, 1], values = [[1]] }\n"),
        r"task\.controls.*2 times",
    ),
}


@pytest.mark.parametrize("case", ROBOT_FILES)
def test_bad_robot_file_is_rejected(case, write_file, raises_clear_error):
    text, message = ROBOT_FILES[case]
    raises_clear_error(lambda: load_task(write_file(text)), message)


INVALID_PATHS = {
    "missing file": (lambda folder: load_robot(folder / "none.toml"), r"no robot file.*none\.toml"),
    "folder": (load_robot, r"is a folder.*give the path of a robot file"),
    "long name": (
        lambda folder: load_robot(folder / (5000 * "a")),
        r"cannot be read|no robot file",
    ),
}


@pytest.mark.parametrize("case", INVALID_PATHS)
def test_invalid_path_is_rejected(case, tmp_path, raises_clear_error):
    read, message = INVALID_PATHS[case]
    raises_clear_error(lambda: read(tmp_path), message)


def test_valid_robot_file_is_accepted(write_file):
    task = load_task(write_file(VALID))
    assert pl.simulate(task.model(), lambda k, x: task.control(k), steps=1).states.shape == (2, 120)


def test_robot_file_in_millimetres_warns(write_file):
    with pytest.warns(UserWarning, match=r"millimetres"):
        load_robot(write_file(changed("[0.1, 0.02, 0.02]", "[100, 20, 20]")))


def test_gravity_above_centrifuge_warns(write_file):
    with pytest.warns(UserWarning, match=r"The gravity is 9810 m/s\^2, more than a centrifuge"):
        load_robot(write_file(changed("-9.81", "-9810")))


@pytest.mark.parametrize("number", ["1" * 401, "1" * 5001, "0x" + "f" * 5001])
def test_integer_of_more_than_64_bits_is_rejected(
    write_file, raises_clear_error, number: str
) -> None:
    path = write_file(f"name = 'x'\n[material]\nE = {number}\n")
    raises_clear_error(lambda: load_robot(path), "more than 64 bits")


def test_thousands_of_dotted_keys_are_rejected(write_file, raises_clear_error) -> None:
    path = write_file(".".join(["a"] * 5000) + " = 1")
    raises_clear_error(lambda: load_robot(path), "nested too deeply")
