"""The command line. Each command parses its arguments, calls one public function and prints the
result.

Exit status: 0 done, 1 goal not reached, 2 invalid input.
"""

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pliant import __version__
from pliant.core import InputError, PliantError, counted, printable, require_seed
from pliant.interrupts import INTERRUPTED_STATUS as INTERRUPTED
from pliant.interrupts import exit_on_interrupt
from pliant.progress import Display, Log
from pliant.progress import Progress as Report
from pliant.zoo.listing import FIELDS, listed_experiments

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Simulate, differentiate, plan and drive soft robots.",
)
screen = Console(stderr=True)
PREPARING = "preparing (the first run compiles)"


def _path(text: str) -> Path:
    """Parse a path argument. An empty one is an error, since it would mean the current folder."""
    if not str(text):
        raise typer.BadParameter("the path is empty")
    return Path(text)


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME|FILE.toml", help="An experiment (see `pliant list`) or a robot file."
    ),
]


@app.callback(invoke_without_command=True)
def no_command(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Simulate, differentiate, plan and drive soft robots."""
    if version or ctx.invoked_subcommand is None:
        print(__version__ if version else ctx.get_help())
        raise typer.Exit(0)


@app.command("list")
def list_command(
    name: Annotated[
        str | None, typer.Argument(help="Show only the settings of this experiment.")
    ] = None,
) -> None:
    """List all experiments, or the settings of one."""
    if name is not None:
        experiment = _experiment_by_name(name)
        settings = [
            (key, value, experiment.quick.get(key, value))
            for key, value in experiment.settings.items()
        ]
        Console().print(_table(("setting", "default", "with --quick"), settings))
        return
    rows = [[row[key] or "-" for key in FIELDS] for row in listed_experiments()]
    table = _table(("name", "paper", "size", "run time", "description"), rows)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


@app.command("run")
def run_command(
    name: Name,
    out: Annotated[
        Path | None,
        typer.Option(parser=_path, metavar="FOLDER", help="Result folder. Default: results/NAME."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers, 0 or more.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; repeatable."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use small settings that run in seconds.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run, with identical results.")
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Distribute exact evaluations over the workers of this dask scheduler, such as "
            "tcp://127.0.0.1:8786.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print result.json as the last line of standard output.")
    ] = False,
) -> None:
    """Run an experiment or a robot file and write its result folder."""
    with exit_on_interrupt():
        from pliant.report.result_folder import checked_folder
        from pliant.zoo.experiment import run

    experiment = _experiment(name)
    overrides = _pairs(set_ or [])
    # raises for a wrong setting before the run begins
    experiment.resolve_settings(overrides, quick=quick)
    require_seed(seed)
    folder = checked_folder(out, experiment.name)
    try:
        with _progress() as progress:
            result = run(
                experiment,
                out=out,
                seed=seed,
                overrides=overrides,
                quick=quick,
                resume=resume,
                cluster=cluster,
                progress=progress,
            )
    except KeyboardInterrupt:
        _fail(
            "Interrupted; finished steps are saved. Continue with the same command and --resume.",
            130,
        )
    _print_result(result, folder)
    if as_json:
        print(json.dumps(result))
    raise typer.Exit(0 if result["status"] == "done" else 1)


@app.command("drive")
def drive_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE.toml", help="A robot of the zoo, an experiment or a robot file."
        ),
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0: any free port.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    allow_remote: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Also serve other machines at this address. Default: only this machine.",
        ),
    ] = None,
    effector: Annotated[
        list[str] | None,
        typer.Option(help="Effector that follows a target; repeatable. Default: the first."),
    ] = None,
    dynamic: Annotated[
        bool,
        typer.Option(
            "--dynamic",
            help="Simulate inertia with a time step of 1/60 s. Default: quasistatic.",
        ),
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(parser=_path, metavar="FOLDER", help="Save recordings in this folder."),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            parser=_path, metavar="FOLDER", help="Replay a recording or a saved plan (plan.save)."
        ),
    ] = None,
    headless: Annotated[
        float | None,
        typer.Option(
            "--headless",
            metavar="SECONDS",
            help="Run without a page for this time and print metrics.",
        ),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(
            parser=_path,
            metavar="FILE.csv",
            help="With --headless: targets over time, in rows of t, x, y, z.",
        ),
    ] = None,
) -> None:
    """Drive a robot in the browser: drag the target and it follows."""
    with exit_on_interrupt():
        from pliant import viewer
        from pliant.zoo.registry import find_robot

    if script is not None and headless is None:
        raise InputError(
            "--script needs a run without a page. Add --headless SECONDS, or leave out --script."
        )
    if headless is not None:
        viewer.check_duration(headless)
    keyframes = None if script is None else viewer.load_script(script)
    with _busy(PREPARING):
        session = viewer.make_session(
            find_robot(name),
            effectors=effector or (),
            dynamic=dynamic,
            folder=record,
            replay=None if replay is None else viewer.load_recording(replay),
        )
    if headless is not None:
        metrics = viewer.headless(
            session,
            seconds=headless,
            script=keyframes,
        )
        for what, value in metrics.items():
            print(printable(f"{what}: {value if isinstance(value, str) else f'{value:.4g}'}"))
        return
    viewer.drive(
        session,
        on_ready=lambda url: _show_url(url, browser),
        port=port,
        address=allow_remote or "127.0.0.1",
        allow_remote=allow_remote is not None,
    )


@app.command("check")
def check_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE.toml", help="A robot of the zoo, an experiment or a robot file."
        ),
    ],
) -> None:
    """Check a robot: mesh quality, supports, actuators, units, masses and one time step."""
    with exit_on_interrupt():
        from pliant.zoo.check import check

    if not name:
        raise InputError("The path is empty; give a robot file, or the name of a robot.")
    findings = check(name)
    Console().print(_table(("what", "found"), findings.facts))
    for warning in findings.warnings:
        _print_line(f"warning: {warning}", Console(), style="yellow")
    n_warnings = len(findings.warnings)
    print(f"usable, with {counted(n_warnings, 'warning')}" if n_warnings else "sound")


@app.command("gradcheck")
def gradcheck_command(
    name: Name,
    full: Annotated[
        bool, typer.Option("--full", help="Use the full settings instead of the quick ones.")
    ] = False,
) -> None:
    """Check all derivatives of a model against finite differences."""
    with exit_on_interrupt():
        from pliant.dynamics import gradcheck

    experiment = _experiment(name)
    with _busy("compiling and checking"):
        checks = gradcheck(*experiment.probe(experiment.resolve_settings(quick=not full)))
    columns = (
        "derivative of the step by",
        "Taylor slope (2 is right)",
        "relative error",
        "jvp against vjp",
        "verdict",
    )
    rows = [
        (
            c.name,
            "no remainder" if c.exact else f"{c.slope:.3f}",
            f"{c.error:.1e}",
            f"{c.duality:.1e}",
            "right" if c.ok else "WRONG",
        )
        for c in checks
    ]
    table = _table(columns, rows)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    raise typer.Exit(0 if all(c.ok for c in checks) else 1)


@app.command("bench")
def bench_command(
    name: Annotated[
        str,
        typer.Argument(
            help="Benchmark: condensed, drive, fem, fluid, learning, mpm, planning, scale, "
            "surrogate or swimmer."
        ),
    ] = "fem",
    quick: Annotated[bool, typer.Option("--quick", help="Run only the smallest sizes.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the numbers as the last line of standard output.")
    ] = False,
) -> None:
    """Compare the speed with other simulators, as ratios from one run."""
    with exit_on_interrupt():
        from pliant.bench import bench

    with _busy("measuring; close other programs"):
        report = bench(name, quick=quick)
    for title, columns, rows in report.tables:
        table = _table(columns, rows, title)
        Console(width=None if sys.stdout.isatty() else 140).print(table)
        print()
    for note in report.notes:
        print(note)
    if as_json:
        print(json.dumps(report.numbers))


@app.command("papers")
def papers_command(
    name: Annotated[
        str | None, typer.Argument(help="Number of a paper, such as 000. Default: list the papers.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=_path, metavar="FOLDER", help="Result folder. Default: results/paper-NAME."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use small settings that run in minutes.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue an interrupted reproduction of paper 000 or 004."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print result.json as the last line of standard output.")
    ] = False,
) -> None:
    """Reproduce the tables and figures of a paper on this machine."""
    with exit_on_interrupt():
        from pliant.papers import RESUMABLE, papers, reproduce

    if name is None:
        for paper, what in papers().items():
            print(f"{paper}  {what}")
        return
    try:
        with _progress() as progress:
            result = reproduce(name, out=out, quick=quick, resume=resume, progress=progress)
    except KeyboardInterrupt:
        how = "continue with --resume" if name in RESUMABLE else "run the same command again"
        _fail(f"Interrupted; {how}.", 130)
    _print_result(result, Path("results") / f"paper-{name}" if out is None else out)
    if as_json:
        print(json.dumps(result))
    raise typer.Exit(0 if result["status"] == "done" else 1)


def main() -> None:
    """Run the command line. Expected errors are printed as one message."""
    _open_missing_streams()
    try:
        _run_app()
    finally:
        _flush_output()


def _run_app() -> None:
    try:
        app()
    except InputError as error:
        _fail(str(error), 2)
    except PliantError as error:
        _fail(str(error), 1)
    except MemoryError as error:
        _fail(
            f"Out of memory ({error}). Use a coarser mesh; if the memory should suffice, report "
            "the command as a bug.",
            1,
        )
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        where = "Standard output" if error.filename is None else str(error.filename)
        _fail(f"{where} cannot be used ({error.strerror}); check the path and the free space.", 1)


def _open_missing_streams() -> None:
    """Connect closed standard streams to the null device, so that no file opened later becomes the
    standard output."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _flush_output() -> None:
    """Flush standard output. A full disk is reported; a closed pipe only sets exit status 1."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the final flush of Python
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        _fail(f"Standard output cannot be written ({error.strerror}); free some space.", 1)


def _fail(message: str, status: int) -> NoReturn:
    _print_line(f"pliant: {message}", style="red")
    sys.exit(status)


def _print_line(text: str, console: Console = screen, style: str | None = None) -> None:
    """Print a line of plain text, without escape sequences that names or files may contain."""
    console.print(printable(text), style=style, markup=False, highlight=False, soft_wrap=True)


def _table(
    columns: Iterable[str], rows: Iterable[Iterable[Any]], title: str | None = None
) -> Table:
    """Return a table of plain text, without markup or escape sequences of names and files."""
    table = Table(
        *(escape(column) for column in columns),
        title=title,
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for row in rows:
        table.add_row(*(escape(printable(str(cell))) for cell in row))
    return table


def _experiment_by_name(name: str) -> Any:
    with exit_on_interrupt():
        from pliant.zoo.registry import find

    return find(name)


def _experiment(name: str) -> Any:
    with exit_on_interrupt():
        from pliant.zoo.task import task_experiment

    return (
        task_experiment(Path(name))
        if name.lower().endswith(".toml") or os.path.isfile(name)
        else _experiment_by_name(name)
    )


def _show_url(url: str, browser: bool) -> None:
    """Print the URL of the page and open it. The URL contains the access token, so the browser
    gets it from a file that no other user can read."""
    import webbrowser

    from pliant.viewer import write_redirect_file

    print(f"{url}", flush=True)
    _print_line("Anyone with this URL can drive the robot. Press Ctrl-C to stop.")
    if browser:
        webbrowser.open(write_redirect_file(url).as_uri())


def _pairs(texts: list[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise InputError(
                f"--set needs KEY=VALUE, not '{text[:60]}'; for example --set dt=0.01."
            )
    return dict(text.split("=", 1) for text in texts)


@contextmanager
def _progress() -> Iterator[Any]:
    """Yield a function that shows progress: bars on a terminal, lines at intervals elsewhere."""
    shown = _bars() if sys.stderr.isatty() else _lines()
    with _interrupts() as asked, shown as show:

        def progress(what: str, done: int, total: int) -> None:
            if asked:
                raise KeyboardInterrupt
            show(what, done, total)

        yield progress


@contextmanager
def _lines() -> Iterator[Report]:
    print(f"{PREPARING} ...", file=sys.stderr, flush=True)
    display = Display(Log(stream=sys.stderr))
    try:
        yield display
    finally:
        display.close()


@contextmanager
def _bars() -> Iterator[Report]:
    """Yield a function that shows a progress bar for each task. The bars disappear at the end."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, transient=True) as bars:
        tasks: dict[str, Any] = {"": bars.add_task(PREPARING, total=None)}

        def show(what: str, done: int, total: int) -> None:
            if "" in tasks:
                bars.remove_task(tasks.pop(""))
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield show


@contextmanager
def _busy(text: str) -> Iterator[None]:
    """Show that work is running: a spinner on a terminal, one line elsewhere."""
    if sys.stderr.isatty():
        with screen.status(text):
            yield
    else:
        print(f"{text} ...", file=sys.stderr, flush=True)
        yield


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Yield a list that gets an entry at the first Ctrl-C, so that the run ends at its next step. A
    second Ctrl-C raises at once. An exception from the signal handler could get lost inside a
    callback of a library."""
    asked: list[int] = []

    def handle(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _print_result(result: dict[str, Any], folder: Path) -> None:
    rows = [
        (
            name,
            f"{m['value']:.4g}" if isinstance(m["value"], float) else m["value"],
            m["unit"],
            "-" if m["paper"] is None else m["paper"],
        )
        for name, m in result["metrics"].items()
    ]
    screen.print(_table(("metric", "here", "unit", "paper"), rows))
    for note in result.get("notes", ()):
        _print_line(note)
    _print_line(f"{result['name']}: {result['status']}")
    _print_line(f"took: {result['seconds']:.1f} s")
    for label, file in (("report", "report.html"), ("animation", "animation.mp4")):
        if (folder / file).is_file():
            _print_line(f"{label}: {folder / file}")


if __name__ == "__main__":
    main()
