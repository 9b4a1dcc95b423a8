"""The command line: exit status, one error message for invalid input, JSON in the last line."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pliant import cli


def pliant(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pliant.cli", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=600,
    )


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """Return called(*words), which runs `pliant` in an empty folder without a new process.

    It returns the exit status and the standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["pliant", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, capfd.readouterr().err

    return call


def test_list_names_every_experiment() -> None:
    from pliant.zoo.registry import EXPERIMENTS

    out = pliant("list")
    assert out.returncode == 0
    assert all(name in out.stdout for name in EXPERIMENTS)


def test_run_prints_the_result_as_its_last_line(tmp_path: Path) -> None:
    out = pliant("run", "cantilever", "--quick", "--json", cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    result = json.loads(out.stdout.strip().splitlines()[-1])
    assert result["status"] == "done"
    assert (tmp_path / "results" / "cantilever" / "report.html").is_file()
    first, *_ = out.stderr.splitlines()
    assert (
        first == "preparing (the first run compiles) ..."
    )  # immediately, because no progress bar is shown
    assert not set(out.stderr) & set("\r\x1b⠋━")
    assert "report.html" in out.stderr


def test_unreached_goal_exits_with_status_1(tmp_path: Path) -> None:
    out = pliant(
        "run",
        "arm-reach",
        "--quick",
        "--set",
        "x=0.15",
        "--set",
        "z=0.3",
        "--out",
        str(tmp_path / "far"),
    )
    assert out.returncode == 1
    assert "cannot reach" in out.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "arm-reech"), "did you mean 'arm-reach'?"),
        (("run", "nosuch"), "`pliant list` shows all experiments. Give a robot file as FILE"),
        (("run", "arm-obstacle"), "did you mean 'arm-obstacles'"),
        (("drive", "nosuch"), "Give a robot file as FILE.toml"),
        (("check", "/dev/zero"), "'/dev/zero' is a folder, a pipe or a device"),
        (("run", "cantilever", "--out", "/proc/x"), "The folder /proc/x cannot be created"),
        (("run", "cantilever", "--set", "cells=nan"), "takes a whole number such as"),
        (("run", "cantilever", "--set", "load"), "KEY=VALUE"),
        (("run", "cantilever", "--set", "lod=1"), "did you mean 'load'?"),
        (("run", "missing.toml"), "missing.toml"),
        (("check", "missing.toml"), "missing.toml"),
        (("gradcheck", "nothing"), "There is no experiment"),
        (("bench", "nothing"), "There is no benchmark"),
    ],
)
def test_invalid_input_exits_with_status_2(words: tuple[str, ...], message: str, called) -> None:
    status, said = called(*words)
    assert status == 2
    assert message in said.replace("\n", " ")
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "words",
    [
        ("run", "cantilever", "--seed", "-1"),
        ("run", "cantilever", "--set", "load=nan"),
        ("run", "cantilever", "--out", "file"),
        ("drive", "plane_arm", "--headless", "nan"),
        ("drive", "plane_arm", "--headless", "1", "--port", "99999"),
        ("drive", "plane_arm", "--headless", "1", "--script", "missing.csv"),
    ],
)
def test_invalid_options_are_rejected_before_the_run_starts(words, called, tmp_path) -> None:
    (tmp_path / "file").touch()
    status, said = called(*words)
    assert status == 2
    assert "preparing" not in said


def test_pipe_is_not_reported_as_missing_robot_file(called, tmp_path) -> None:
    os.mkfifo(tmp_path / "fifo.toml")
    status, said = called("check", "fifo.toml")
    assert (status, "is a folder, a pipe or a device" in said) == (2, True)


def test_damaged_result_error_names_remedy(called, tmp_path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "result.json").write_text('{"name": ')
    status, said = called("run", "cantilever", "--out", "made", "--resume")
    assert status == 2
    assert "Delete it and run again, or choose another folder" in said


def test_gradcheck_prints_a_table_of_correct_derivatives() -> None:
    out = pliant("gradcheck", "block-drop")
    assert out.returncode == 0, out.stderr
    assert "right" in out.stdout
    assert "WRONG" not in out.stdout


def test_check_reports_implausible_dimensions(tmp_path: Path) -> None:
    file = tmp_path / "big.toml"
    file.write_text("""name = "big"
[geometry]
shape = "box"
size = [200.0, 20.0, 20.0]
divisions = [4, 1, 1]
[material]
E = 1e6
nu = 0.4
[[supports]]
region = "x-"
""")
    out = pliant("check", str(file))
    assert out.returncode == 0, out.stderr
    assert out.stdout.count("millimetres") == 1
    assert "closed" in out.stdout


def test_only_the_result_is_written_to_standard_output(tmp_path: Path) -> None:
    out = pliant("run", "cantilever", "--quick", "--out", str(tmp_path))
    assert out.stdout == ""


def test_result_folder_that_is_a_file_exits_with_status_2(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    out = pliant("run", "cantilever", "--quick", "--out", str(tmp_path / "taken"))
    assert (out.returncode, "is a file, and results need a folder" in out.stderr) == (2, True)


def test_version_settings_and_usage_are_printed() -> None:
    import pliant as package

    assert pliant("--version").stdout.strip() == package.__version__
    assert "tolerance" in pliant("list", "arm-reach").stdout
    assert "Usage" in pliant().stdout


@pytest.mark.parametrize("setting", ["steps=-5", "steps=0", "dt=0", "tolerance=-1"])
def test_setting_out_of_range_is_rejected_before_the_run_starts(
    setting: str, called, tmp_path: Path
) -> None:
    status, said = called("run", "arm-reach", "--set", setting)
    assert status == 2
    assert ". Give " in said
    assert not (tmp_path / "results").exists()


def test_interrupt_message_names_resume_option(tmp_path: Path) -> None:
    words = ["run", "block-drop", "--set", "steps=100000", "--out", str(tmp_path)]
    child = subprocess.Popen(
        [sys.executable, "-m", "pliant.cli", *words], stderr=subprocess.PIPE, text=True
    )
    while not list((tmp_path / "trajectory").glob("chunk-*.npz")):
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=120)
    assert child.returncode == 130
    assert "--resume" in said


def test_memory_error_prints_one_message_and_exits_with_status_1(called, monkeypatch):
    def allocate() -> None:
        raise MemoryError("Unable to allocate 273. GiB")

    monkeypatch.setattr(cli, "app", allocate)
    status, said = called("check", "robot.toml")
    assert status == 1
    assert "Unable to allocate 273. GiB" in said
    assert "coarser mesh" in said
    assert "Traceback" not in said


def test_closed_or_full_output_prints_no_traceback() -> None:
    for place, status, said in ((">&-", 0, ""), (">/dev/full", 1, "cannot be"), ("| true", 0, "")):
        out = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m pliant papers {place}"],
            capture_output=True,
            text=True,
        )
        assert (out.returncode, said in out.stderr) == (status, True), out.stderr
        assert "Traceback" not in out.stderr
        assert "Exception" not in out.stderr


INTERRUPTED_IMPORT = """
import runpy, signal, sys

module = sys.argv.pop(1)

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            print("interrupted", flush=True)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
runpy.run_module("pliant", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["pliant.cli", "typer", "pliant.zoo.experiment"])
def test_interrupt_during_import_prints_nothing(module: str) -> None:
    words = [module, "run", "cantilever", "--set", "no=1"]
    out = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, *words], capture_output=True, text=True
    )
    assert (out.returncode, out.stdout, out.stderr) == (130, "interrupted\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "cantilever", "--seed", "-1"), "The seed is '-1'"),
        (("run", "cantilever", "--seed", "1" * 5001), "--seed"),
        (("run", "cantilever", "--set", f"cells={'1' * 5001}"), "takes a whole number"),
        (("run", "cantilever", "--set", f"cells={'1' * 400}"), "Give a number below"),
        (("run", "cantilever", "--set", f"load={'1' * 5001}"), "finite"),
        (("run", "cantilever", "--out", ""), "path is empty"),
        (("run", "n" * 300), "There is no experiment"),
        (("run", "\x1b[31mred"), r"'\x1b[31mred'"),
        (("check", f"{'n' * 300}.toml"), "cannot be read"),
        (("check", ""), "path is empty"),
        (("drive", "n" * 300), "There is no robot"),
        (("drive", "plane_arm", "--headless", "1e300"), "at most 86400 s"),
        (("papers", "000", "--out", ""), "path is empty"),
    ],
)
def test_hostile_arguments_give_one_clear_error(
    words: tuple[str, ...], message: str, called
) -> None:
    status, said = called(*words)
    assert status == 2
    assert message in said
    assert "Traceback" not in said
    assert "\x1b[31m" not in said
    assert len(said) < 2000


def test_names_with_escape_sequences_are_printed_escaped(tmp_path: Path, called, capfd) -> None:
    file = tmp_path / "red.toml"
    file.write_text("""name = "red"
[geometry]
shape = "box"
size = [0.2, 0.02, 0.02]
divisions = [2, 1, 1]
[material]
E = 1e6
nu = 0.4
[[supports]]
region = "x-"
[effectors."\\u001b[31mtip [bold]"]
surface = "x+"
""")
    sys.argv = ["pliant", "check", str(file)]
    with pytest.raises(SystemExit):
        cli.main()
    said = capfd.readouterr().out
    assert r"\x1b[31mtip [bold]" in said
    assert "\x1b" not in said
