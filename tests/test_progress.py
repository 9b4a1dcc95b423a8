"""Progress is shown once, in a terminal, notebook or log, and never by short computations."""

import io
import subprocess
import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest

from pliant.progress import Display, Log, Notebook, Terminal, duration, reporting


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Screen(io.StringIO):
    """A stream whose `isatty` returns True."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """Return the visible text after each carriage return."""
        return [line.rstrip() for line in self.getvalue().split("\r")]


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """Return the clock of every display that `reporting` opens."""
    made = Clock()
    monkeypatch.setattr(Display.__init__, "__kwdefaults__", {"delay": 2.0, "clock": made})
    return made


@pytest.fixture
def stderr(capsys):
    """Return stderr(), the text written to it since the last call. It is not a terminal."""
    return lambda: capsys.readouterr().err


def work(report, clock: Clock, *, seconds: int) -> None:
    """Report once at the end of each second."""
    for k in range(1, seconds + 1):
        clock.now += 1.0
        report("planning", k, seconds)


def test_piped_run_writes_periodic_lines_and_final_state(clock, stderr):
    with reporting(None) as report:
        work(report, clock, seconds=14)
    assert stderr().splitlines() == [
        "planning 2/14 after 2 s",
        "planning 7/14 after 7 s",
        "planning 12/14 after 12 s",
        "planning 14/14 after 14 s",
    ]


def test_short_computation_is_silent(clock, stderr):
    with reporting(None) as report:
        work(report, clock, seconds=1)
    assert stderr() == ""


def test_progress_false_is_silent_and_true_shows_at_once(clock, stderr):
    with reporting(False) as report:
        work(report, clock, seconds=100)
    assert stderr() == ""
    with reporting(True) as report:
        work(report, clock, seconds=1)
    assert stderr() == "planning 1/1 after 1 s\n"


def test_terminal_shows_one_bar_and_clears_it(clock, monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with reporting(None) as report:
        work(report, clock, seconds=4)
    assert screen.lines()[1] == "planning [############............] 2/4 2 s"
    assert screen.lines()[-2:] == ["", ""]
    assert "\n" not in screen.getvalue()


def test_terminal_is_cleared_if_computation_fails(clock, monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)

    def fail() -> None:
        with reporting(None) as report:
            work(report, clock, seconds=3)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert screen.lines()[-1] == ""


def test_line_longer_than_terminal_is_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    screen = Screen()
    Terminal(stream=screen).show("x" * 50, 1, 2, 0.0)
    assert screen.lines() == ["", "x" * 19]


def test_notebook_updates_one_output(clock, monkeypatch, stderr):
    shown = []

    class Handle:
        def update(self, content, *, raw):
            shown.append(("update", content["text/plain"]))

    def display(content, *, raw, display_id):
        shown.append(("display", content["text/plain"]))
        return Handle()

    ipython, module = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    with reporting(None) as report:
        work(report, clock, seconds=4)
    assert shown == [
        ("display", "planning 2/4 after 2 s"),
        ("update", "planning 3/4 after 3 s"),
        ("update", "planning 4/4 after 4 s"),
    ]
    assert stderr() == ""


def test_function_receives_every_report_and_nothing_is_written(clock, stderr):
    seen = []
    with reporting(lambda *report: seen.append(report)) as report:
        work(report, clock, seconds=3)
        with reporting(None) as inner:  # a nested simulation: the caller reports
            work(inner, clock, seconds=10)
    assert seen == [("planning", k, 3) for k in (1, 2, 3)]
    assert stderr() == ""


def test_nested_computation_reports_to_the_same_display(clock, stderr):
    with reporting(None):
        clock.now = 3.0
        with reporting(lambda *report: None), reporting(None) as inner:
            inner("exact evaluations", 1, 4)
    assert stderr() == "exact evaluations 1/4 after 3 s\n"


def test_computation_in_another_thread_is_silent(clock, stderr):
    def run() -> None:
        with reporting(None) as report:
            work(report, clock, seconds=9)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert stderr() == ""


@pytest.mark.parametrize("sink", [Log, Terminal])
def test_closed_stream_does_not_stop_the_computation(sink):
    stream = io.StringIO()
    display = Display(sink(stream=stream), delay=0.0)
    stream.close()
    display("planning", 1, 2)
    display("planning", 2, 2)
    display.close()


def test_missing_stream_is_silent(monkeypatch, clock):
    monkeypatch.setattr(sys, "stderr", None)
    with reporting(True) as report:
        work(report, clock, seconds=3)


def test_bad_progress_argument_is_rejected(raises_clear_error):
    def enter(value):
        with reporting(value):
            pass

    raises_clear_error(lambda: enter("yes"), "progress is 'yes'")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119.9, "119 s"), (120.0, "0:02:00"), (3725.0, "1:02:05")]
)
def test_durations_are_formatted(seconds, text):
    assert duration(seconds) == text


def test_notebook_output_has_no_bar():
    lines = []
    Notebook(display=lambda content, **_: lines.append(content)).show("planning", 1, 2, 3.0)
    assert lines == [{"text/plain": "planning 1/2 after 3 s"}]


def test_progress_imports_neither_rich_nor_ipython():
    code = "import sys, pliant.progress; print({'rich', 'IPython'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr


class Minimal:
    """A stream with `write` and `flush` only, such as a log redirector."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def test_stream_with_write_and_flush_only_gets_plain_lines(monkeypatch, clock):
    stream = Minimal()
    monkeypatch.setattr(sys, "stderr", stream)
    with reporting(None) as report:
        work(report, clock, seconds=2)
    assert stream.text == "planning 2/2 after 2 s\n"


def test_stream_is_chosen_at_the_first_line(monkeypatch, clock):
    stream = Minimal()
    with reporting(None) as report:
        monkeypatch.setattr(sys, "stderr", stream)
        work(report, clock, seconds=2)
    assert stream.text == "planning 2/2 after 2 s\n"
