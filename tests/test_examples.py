"""Each example runs, and its numbers agree with physics."""

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def output(name: str) -> str:
    """Run an example and return what it prints."""
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


def test_examples_import_only_numpy_torch_and_pliant_and_are_short() -> None:
    allowed = {"import numpy as np", "import torch", "import pliant as pl"}
    for path in EXAMPLES.glob("*.py"):
        lines = path.read_text().splitlines()
        imports = {line for line in lines if line.startswith(("import ", "from "))}
        assert imports <= allowed, path.name
        assert len(lines) <= 60, path.name


def test_arm_bends_towards_the_tensioned_cable() -> None:
    lines = output("01_arm.py").splitlines()
    x, y, z = numbers(lines[0].split(":")[1])
    assert x == pytest.approx(y, abs=1e-4)  # the mesh is symmetric about the diagonal
    assert x < -0.03
    assert 0.1 < z < 0.2
    jacobian = [numbers(line) for line in lines[2:]]
    assert (
        jacobian[0][0] < 0.0 < jacobian[0][2]
    )  # the same cable bends further, the opposite one back


def test_strip_derivatives_by_adjoint_and_difference_agree() -> None:
    height, adjoint, difference = (
        numbers(line.split(":")[1])[0] for line in output("02_swing.py").splitlines()
    )
    assert -0.2 < height < -0.02
    assert adjoint == pytest.approx(
        difference, rel=1e-4
    )  # the finite difference has an error of about (0.1 %)^2


def test_contact_force_is_that_of_a_compressed_column() -> None:
    force = numbers(output("03_push_down.py"))[0]
    # A column with E A / L = 1e5 * 3.14e-4 / 0.05 N/m compressed by 10 mm gives 6.3 N. The small
    # contact area makes it softer.
    assert 1.0 < force < 7.0


def test_readme_code_runs(tmp_path) -> None:
    text = (EXAMPLES.parent / "README.md").read_text()
    lines = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert lines is not None
    finite = "assert all(abs(g).sum() > 0 and abs(g).max() < 1e9 for g in (x0_bar, u_bars, p_bar))"
    code = f"{lines.group(1)}\n{finite}\n"
    code += "print(plan.goal_errors[0][2], *u_bars.shape, *p_bar.shape)\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    miss, *shapes = numbers(done.stdout.splitlines()[-1])
    assert miss < 1e-3  # [m]
    assert shapes == [25, 4, 1]
    assert (tmp_path / "results" / "reach" / "report.html").stat().st_size > 10_000


def test_readme_inverse_control_follows_its_circle(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"```python\n(.*?)```", (EXAMPLES.parent / "README.md").read_text(), re.DOTALL
    )
    names: dict = {}
    exec("import pliant as pl\n" + blocks[1], names)
    assert names["log"].status.ok
    assert names["log"].errors[-1] < 1e-3  # [m]
    assert (tmp_path / "results" / "circle" / "report.html").is_file()


def test_getting_started_guide_code_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide = (EXAMPLES.parent / "docs" / "guide" / "getting-started.md").read_text()
    names: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(snippet, names)
    assert (tmp_path / "results" / "finger" / "report.html").is_file()
    assert repr(names["same"]) == repr(names["finger"])
    # the tendon is at small x, so the last tension moves the tip to -x; the finger oscillates, so
    # earlier tensions may have either sign
    assert names["u_bars"][-1, 0] < 0.0


def test_physics_guide_code_has_correct_derivatives() -> None:
    guide = (EXAMPLES.parent / "docs" / "guide" / "physics.md").read_text()
    names: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(snippet, names)
    assert names["p_bar"].shape == (1,)
    assert all(check.ok for check in names["checks"])


def test_planned_tip_reaches_target_within_rate_limit() -> None:
    first, second = output("04_plan.py").splitlines()
    assert "converged" in first
    *_, miss, fastest = numbers(second)
    assert miss < 1.0  # [mm]
    assert fastest <= 2.0


def test_planning_guide_code_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide = (EXAMPLES.parent / "docs" / "guide" / "planning.md").read_text()
    first, saved, constrained, *arms = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    names: dict = {}
    exec(first, names)
    plan = names["plan"]
    assert plan.status
    assert plan.goal_errors[0][2] < 1e-3
    exec(saved, names)
    assert names["again"].cost == plan.cost
    assert len(names["warm"].history) < len(plan.history)
    assert (tmp_path / "my-plan" / "plan.csv").read_text().startswith("time [s],hand 1 [m],")
    exec(constrained, names)
    assert names["plan"].constraint_violation < 1e-4
    pytest.importorskip("pinocchio")
    for snippet in arms:
        exec(snippet, names)
    assert names["held"].n_controls == names["arm"].n_controls


def test_grid_of_shapes_needs_few_equilibria_and_estimates_its_error() -> None:
    *certificate, last = output("05_grid_of_shapes.py").splitlines()
    exact, queries, error, position_error = numbers(last)
    assert exact < 0.1 * queries
    assert error < 1e-5
    assert position_error < 1e-6
    assert any("observed order: 4" in line for line in certificate)


def test_surrogate_guide_code_runs() -> None:
    guide = (EXAMPLES.parent / "docs" / "guide" / "surrogates.md").read_text()
    names: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(snippet, names)
    assert names["refined"].plan.goal_errors[0][2] < 5e-3
    assert names["value"][0] == pytest.approx(math.sin(0.21), abs=1e-4)


def test_feedback_holds_the_goal_on_a_softer_robot() -> None:
    with_feedback, without = numbers(output("06_close_the_loop.py").splitlines()[-1])
    assert with_feedback < 0.1 < 0.5 < without  # [mm]


def test_condensed_guide_code_runs() -> None:
    guide = (EXAMPLES.parent / "docs" / "guide" / "condensed.md").read_text()
    names: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(snippet, names)
    assert names["condensed"].status
    assert names["exact"].cost <= names["condensed"].cost
    assert names["careful"].constraint_violation < 1e-4
    assert names["u"].shape == (4,)
    hook = names["crane"].effector_position("hook", names["rotated"])
    assert math.atan2(hook[1], hook[0]) == pytest.approx(
        0.5, abs=5e-3
    )  # the motor rotates it about the vertical axis
    assert abs(names["finger"].effector_position("tip", names["bent"])[0]) > 1e-4


def test_tip_follows_target_and_reports_unreachable_target() -> None:
    circle, text, equilibrium = output("07_follow_a_target.py").splitlines()
    assert numbers(circle)[0] < 0.1  # [mm]
    assert text.startswith("the target is out of reach: closest")
    assert numbers(equilibrium)[0] < 1e-8  # [m]


def test_inverse_control_guide_code_runs() -> None:
    guide = (EXAMPLES.parent / "docs" / "guide" / "inverse.md").read_text()
    names: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(snippet, names)
    assert names["state"].message == "at the target"
    assert not names["far"].ok
    assert names["far"].message.startswith("the target is out of reach")
    assert names["kept"].u[3] == 1.0
    assert names["kept"].message == "at the target"


def test_environment_of_an_own_robot_rewards_a_good_policy() -> None:
    pytest.importorskip("gymnasium")
    random, feedback, plan = (
        numbers(line)[0] for line in output("08_environment.py").splitlines()[-3:]
    )
    assert random < 10.0 * feedback < 0.0
    assert feedback < plan < 0.0


def test_environments_guide_code_runs() -> None:
    pytest.importorskip("gymnasium")
    guide = (EXAMPLES.parent / "docs" / "guide" / "environments.md").read_text()
    names: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(snippet, names)
    assert names["picture"].shape == (480, 640, 3)
    assert names["info"]["time"].tolist() == 4 * [0.05]
    assert names["slope"].shape == (names["network"].params.size,)
    assert abs(names["slope"]).max() > 0.0
    for listed in re.findall(r"`(pliant/\w+-v0)`", guide):
        assert listed in names["gymnasium"].registry


def test_policy_gradient_trains_a_strip_with_few_steps() -> None:
    untrained, trained, plan = (
        numbers(line.split(":")[1]) for line in output("09_policy_gradient.py").splitlines()
    )
    assert trained[0] > untrained[0] / 5.0  # returns are negative
    assert trained[1] == 750  # environment steps
    assert trained[0] < plan[0] < 0.0  # no feedback of one instant beats the plan


def test_ppo_brings_the_puck_to_its_target() -> None:
    pytest.importorskip("stable_baselines3")
    untrained, trained, distance = (
        numbers(line.split(":")[1]) for line in output("10_ppo.py").splitlines()
    )
    assert trained[0] > untrained[0] / 5.0
    first, last = distance
    assert last < 0.1 * first


def test_training_guide_code_runs(tmp_path, monkeypatch) -> None:
    pytest.importorskip("stable_baselines3")
    monkeypatch.chdir(tmp_path)
    guide = (EXAMPLES.parent / "docs" / "guide" / "training.md").read_text()
    names: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(snippet, names)
    result = names["result"]
    plan = names["pl"].plan(names["task"].problem(names["model"]))
    assert -result.mean_return == pytest.approx(plan.cost, rel=1e-2)
    assert -result.mean_return < -result.history[0].mean_return / 4.0
    assert (tmp_path / "results" / "training" / "report.html").is_file()
    assert names["again"].mean_return >= result.mean_return
    assert names["refined"].certificate.step_error < 1e-6
    assert len(names["seeds"].results) == 2


def test_recurrent_network_moves_user_muscles() -> None:
    untrained, trained = numbers(output("11_observers.py"))
    assert trained > untrained / 5.0  # returns are negative


def test_observers_guide_code_runs(tmp_path, monkeypatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    guide = (EXAMPLES.parent / "docs" / "guide" / "observers.md").read_text()
    names: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(snippet, names)
    assert names["y"].shape == (14,)
    assert names["gradient"].shape == (names["model"].space.size,)
    assert names["memory"].shape == (11, 8)
    assert names["used"][0] == 0.0
    seen = names["pl"].learning.attach_observer(names["strain"], names["model"])
    y = seen.observe(names["pull"].states[-1])
    assert names["used"][1] == pytest.approx(names["stress"](0.8, y)[0], rel=1e-12)
    assert all(check.ok for check in names["checks"])
    assert names["error"] < 0.9
    assert (names["same"].history, names["same"].latent) == (names["seen"].history, 4)
    assert names["best"].mean_return > names["found"].rounds[0].history[0].mean_return


def test_torch_network_brings_the_tip_to_both_targets() -> None:
    pytest.importorskip("torch")
    first, last, distances = output("12_pytorch.py").splitlines()
    assert numbers(last)[1] < numbers(first)[1] / 3.0
    assert max(numbers(distances)) < 5.0  # [mm], of 20 mm at the start


def test_pytorch_guide_code_runs() -> None:
    pytest.importorskip("torch")
    guide = (EXAMPLES.parent / "docs" / "guide" / "pytorch.md").read_text()
    names: dict = {}
    step, plan, loop = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    exec(step, names)
    # a tension on the upper side lifts the tip, and a stiffer strip moves less
    assert names["u"].grad.item() > 0.0
    assert names["p"].grad.item() < 0.0
    exec(plan, names)
    assert names["height"].max().item() > 0.02  # [m], 0.01 at rest
    exec(loop, names)
    assert names["weights"].grad.abs().max().item() > 0.0


def test_co_designed_arm_swings_up_with_less_pressure() -> None:
    fixed, both, share = (
        numbers(line.split(":")[1]) for line in output("14_swing_up.py").splitlines()
    )
    assert max(fixed[1], both[1]) < 1e-2  # of the goal region and of the velocity at the end
    assert share[0] == pytest.approx(both[0] / fixed[0], abs=0.01)
    assert share[0] < 0.75  # as in the paper


def test_hanging_arm_becomes_long_enough() -> None:
    for line in output("15_lengthen_arm.py").splitlines():
        stretched, length, distance = numbers(line.split(":")[1])
        assert stretched > 75.0  # [mm], with all pressures at their limit
        sag = (1.0 - 0.3**2) * 1000.0 * 9.81 * length**2 / (2.0 * 1e5)  # of a wide bar [m]
        assert length + sag == pytest.approx(0.42, abs=2e-3)  # the tip still moves a little
        assert distance < 1.0  # [mm]


def test_shapes_guide_code_runs() -> None:
    guide = (EXAMPLES.parent / "docs" / "guide" / "shapes.md").read_text()
    names: dict = {}
    for snippet in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(snippet, names)
    assert names["result"].value < 1e-10  # [m^2]
    length = names["best"][0]
    assert 0.33 < length < 0.345  # it sags
    height = float(names["longer"].mesh().points[:, 1].min())
    assert height == pytest.approx(-length)
    assert -1.2 < names["slope"][0] < -1.0  # a longer arm also sags more


def test_finger_of_particles_is_recovered_from_noisy_copies() -> None:
    lines = output("16_identify_finger.py").splitlines()
    for line, true in zip(lines[1:4], (1e5, 1000.0, 0.25), strict=True):
        value, lower, upper, _ = numbers(line.split("=")[1].replace("kg/m^3", ""))
        assert value == pytest.approx(true, rel=0.02)
        assert lower <= true <= upper  # printed with four digits
    for line in lines[4:6]:
        noise_of_the_mean = 2e-4 / math.sqrt(10.0)  # [m]
        assert numbers(line.split("error")[1])[0] == pytest.approx(noise_of_the_mean, rel=0.05)
    losses = numbers(lines[-1].split(":")[1])
    assert min(losses[1:]) < 0.1 * losses[0]


def test_plan_of_the_fitted_coarse_arm_is_better_than_that_of_the_first_guess() -> None:
    lines = output("17_fit_coarse_arm.py").splitlines()
    E = numbers(lines[1].split("=")[1])[0]
    assert E < 2e5  # the coarse mesh is too stiff, so its E is below that of the material
    held_out = next(line for line in lines if "held out" in line)
    assert numbers(held_out.split("error")[1])[0] < 1e-3  # [m]
    before, after = numbers(lines[-1].split(":")[1])
    assert after < 0.2 * before


def test_identification_recovers_the_finger_and_predicts_a_held_out_recording() -> None:
    lines = output("13_identify.py").splitlines()
    E, lower, upper, start = numbers(lines[1].split("=")[1].replace("start", ""))
    assert start == 1e5
    assert lower < E < upper < 1.01 * lower
    assert pytest.approx(2e5, rel=0.01) == E
    assert numbers(lines[2].split("=")[1])[0] == pytest.approx(0.01, rel=0.03)
    held_out = numbers(lines[-1].split("error")[1])[0]
    assert held_out == pytest.approx(2e-4, rel=0.1)  # the noise


def test_designed_stiffness_bends_behind_the_middle_and_holds_in_motion() -> None:
    lines = output("18_codesign.py").splitlines()
    force, both, two = numbers(lines[0])
    assert both <= two < 0.7 * force
    moduli = [numbers(line.split("=")[1])[0] for line in lines[1:3]]
    assert 1e5 <= min(moduli) < max(moduli) <= 1e6
    x, y, x_still, y_still = numbers(lines[3].split(":")[1])
    assert (x, y) == pytest.approx((x_still, y_still), abs=1e-4)
