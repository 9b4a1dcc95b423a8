"""Each example runs and prints a number that physics knows."""

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def output(name: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"-?\d+\.?\d*(?:e[-+]?\d+)?", text)]


def test_every_example_is_tested() -> None:
    tested = Path(__file__).read_text()
    assert [path.name for path in EXAMPLES.glob("*.py") if path.name not in tested] == []


def test_the_arm_bends_towards_the_line_that_pulls() -> None:
    lines = output("01_arm.py").splitlines()
    x, y, z = numbers(lines[0].split(":")[1])
    assert x == pytest.approx(y, abs=1e-4)  # the mesh is symmetric about the diagonal
    assert x < -0.03
    assert 0.1 < z < 0.2
    jacobian = [numbers(line) for line in lines[2:]]
    assert (
        jacobian[0][0] < 0.0 < jacobian[0][2]
    )  # more pull on the same line bends on, on the opposite one back


def test_the_strip_hangs_down_and_its_two_derivatives_agree() -> None:
    height, adjoint, difference = (
        numbers(line.split(":")[1])[0] for line in output("02_swing.py").splitlines()
    )
    assert -0.2 < height < -0.02
    assert adjoint == pytest.approx(
        difference, rel=1e-4
    )  # the difference's own error is (0.1 %)^2 times a few


def test_the_ball_pushes_back() -> None:
    force = numbers(output("03_push_down.py"))[0]
    # a column of E A / L = 1e5 * 3.14e-4 / 0.05 N/m pressed by 10 mm gives 6.3 N; the small contact
    # patch makes it softer
    assert 1.0 < force < 7.0


def test_the_ten_lines_of_the_readme_run() -> None:
    text = (EXAMPLES.parent / "README.md").read_text()
    lines = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert lines is not None
    code = (
        lines.group(1)
        + "\nassert p_bar.shape == (1,) and u_bars.shape == (100, 4) and np.isfinite(x_bar).all()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr


def test_the_planned_tip_is_at_its_target_and_the_hand_keeps_its_speed() -> None:
    first, second = output("04_plan.py").splitlines()
    assert "converged" in first
    *_, miss, fastest = numbers(second)
    assert miss < 1.0  # [mm]
    assert fastest <= 2.0


def test_the_planning_guides_snippets_run(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide = (EXAMPLES.parent / "docs" / "guide" / "planning.md").read_text()
    first, saved, constrained, *arms = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    names: dict = {}
    exec(first, names)
    plan = names["plan"]
    assert plan.status
    assert plan.misses[0][2] < 1e-3
    exec(saved, names)
    assert names["again"].cost == plan.cost
    assert len(names["warm"].history) < len(plan.history)
    assert (tmp_path / "my-plan" / "plan.csv").read_text().startswith("time [s],hand 1 [m],")
    exec(constrained, names)
    assert names["plan"].violation < 1e-4
    pytest.importorskip("pinocchio")
    for snippet in arms:
        exec(snippet, names)
    assert names["held"].n_controls == names["arm"].n_controls


def test_the_grid_of_shapes_takes_few_equilibria_and_says_what_it_is_worth() -> None:
    *certificate, last = output("05_grid_of_shapes.py").splitlines()
    exact, asked, error = numbers(last)
    assert exact < 0.1 * asked
    assert error < 1e-6
    assert any("observed order: 4" in line for line in certificate)


def test_the_surrogate_guides_snippets_run() -> None:
    guide = (EXAMPLES.parent / "docs" / "guide" / "surrogates.md").read_text()
    names: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(snippet, names)
    assert names["refined"].plan.misses[0][2] < 5e-3
    assert names["value"][0] == pytest.approx(math.sin(0.21), abs=1e-4)


def test_the_loop_holds_a_goal_that_the_plan_alone_loses() -> None:
    held, drifted = numbers(output("06_close_the_loop.py").splitlines()[-1])
    assert held < 0.1 < 0.5 < drifted  # [mm]


def test_the_condensed_guides_snippets_run() -> None:
    guide = (EXAMPLES.parent / "docs" / "guide" / "condensed.md").read_text()
    names: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(snippet, names)
    assert names["rough"].status
    assert names["exact"].cost <= names["rough"].cost
    assert names["careful"].violation < 1e-4
    assert names["u"].shape == (4,)
    hook = names["crane"].place("hook", names["turned"])
    assert math.atan2(hook[1], hook[0]) == pytest.approx(
        0.5, abs=5e-3
    )  # the motor turns it about the upright
    assert abs(names["finger"].place("tip", names["bent"])[0]) > 1e-4


def test_the_tip_follows_a_target_and_says_when_it_is_out_of_reach() -> None:
    circle, text, held = output("07_follow_a_target.py").splitlines()
    assert numbers(circle)[0] < 0.1  # [mm]
    assert text.startswith("the target is out of reach: closest")
    assert numbers(held)[0] < 1e-8  # [m]


def test_the_inverse_guides_snippets_run() -> None:
    guide = (EXAMPLES.parent / "docs" / "guide" / "inverse.md").read_text()
    names: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(snippet, names)
    assert names["pose"].text == "at the target"
    assert not names["far"].ok
    assert names["far"].text.startswith("the target is out of reach")
    assert names["kept"].u[3] == 1.0
    assert names["kept"].text == "at the target"
