"""The command line: parse, call one public function, print. Exit status 0 done, 1 goal not reached,
2 wrong input."""

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
from pliant.core import InputError, PliantError, printable, require_seed
from pliant.interrupts import STATUS as INTERRUPTED
from pliant.interrupts import exit_on_interrupt
from pliant.progress import Display, Log
from pliant.progress import Progress as Report

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Soft robots: describe once, then simulate and differentiate.",
)
screen = Console(stderr=True)
PREPARING = "preparing (the first run compiles, once)"


def _path(text: str) -> Path:
    """A path that was typed; an empty one would be the current folder."""
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
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Soft robots: describe once, then simulate and differentiate."""
    if version or ctx.invoked_subcommand is None:
        print(__version__ if version else ctx.get_help())
        raise typer.Exit(0)


@app.command("list")
def list_command(
    name: Annotated[
        str | None, typer.Argument(help="Show the settings of this experiment instead.")
    ] = None,
) -> None:
    """Every experiment: paper, size, what it shows, typical run time; or the settings of one."""
    with exit_on_interrupt():
        from pliant.zoo.registry import EXPERIMENTS, find

    if name is not None:
        experiment = find(name)
        settings = [
            (key, value, experiment.quick.get(key, value))
            for key, value in experiment.settings.items()
        ]
        Console().print(_table(("setting", "default", "with --quick"), settings))
        return
    rows = [(e.name, e.paper or "-", e.size, e.takes, e.shows) for e in EXPERIMENTS.values()]
    table = _table(("name", "paper", "size", "takes", "what it shows"), rows)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


@app.command("run")
def run_command(
    name: Name,
    out: Annotated[
        Path | None,
        typer.Option(parser=_path, metavar="FOLDER", help="By default results/NAME."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of every random number, 0 or more.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller settings: seconds instead of minutes.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted run, bit for bit.")
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Share exact evaluations among the workers of this dask scheduler, such as tcp://127.0.0.1:8786.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print result.json as the last line of standard output.")
    ] = False,
) -> None:
    """Run an experiment or a robot file and write its result folder."""
    with exit_on_interrupt():
        from pliant.zoo.experiment import run
        from pliant.zoo.result_folder import checked_folder

    experiment = _experiment(name)
    overrides = _pairs(set_ or [])
    experiment.chosen(overrides, quick=quick)  # raises for a wrong setting before work begins
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
            "Interrupted; what was finished is on disk. Go on with the same command and --resume.",
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
            metavar="NAME|FILE.toml", help="A robot of the zoo, an experiment, or a robot file."
        ),
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes one that is free.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    allow_remote: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Serve this address to other machines too; without it only this one is let in.",
        ),
    ] = None,
    effector: Annotated[
        list[str] | None,
        typer.Option(help="Which effector follows; may be repeated. By default the first."),
    ] = None,
    dynamic: Annotated[
        bool,
        typer.Option(
            "--dynamic",
            help="With inertia, in steps of 1/60 s, instead of a balance at every tick.",
        ),
    ] = False,
    record: Annotated[
        Path | None, typer.Option(parser=_path, metavar="FOLDER", help="Save every recording here.")
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            parser=_path, metavar="FOLDER", help="Play this recording or saved plan (plan.save)."
        ),
    ] = None,
    without_page: Annotated[
        float | None,
        typer.Option(
            "--headless",
            metavar="SECONDS",
            help="Without a page: lead the effectors for so long, and report.",
        ),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(
            parser=_path,
            metavar="FILE.csv",
            help="With --headless: targets over time, rows of t, x, y, z.",
        ),
    ] = None,
) -> None:
    """The robot in the browser: drag the target and it follows."""
    with exit_on_interrupt():
        from pliant import viewer
        from pliant.zoo.registry import find_robot

    if script is not None and without_page is None:
        raise InputError(
            "A script leads a robot without a page; say --headless SECONDS too, or leave "
            "--script out."
        )
    if without_page is not None:
        viewer.check_duration(without_page)
    keyframes = None if script is None else viewer.load_script(script)
    with _busy(PREPARING):
        session = viewer.session_of(
            find_robot(name),
            effectors=effector or (),
            dynamic=dynamic,
            folder=record,
            replayed=None if replay is None else viewer.load_recording(replay),
        )
    if without_page is not None:
        figures = viewer.headless(
            session,
            seconds=without_page,
            script=keyframes,
        )
        for what, value in figures.items():
            print(printable(f"{what}: {value if isinstance(value, str) else f'{value:.4g}'}"))
        return
    viewer.drive(
        session,
        told=lambda url: _opened(url, browser),
        port=port,
        address=allow_remote or "127.0.0.1",
        allow_remote=allow_remote is not None,
    )


@app.command("check")
def check_command(
    file: Annotated[
        Path, typer.Argument(parser=_path, metavar="FILE", help="A robot file (TOML).")
    ],
) -> None:
    """Is this robot sound? Mesh quality, supports, actuators, units, and one step of it."""
    with exit_on_interrupt():
        from pliant.zoo.check import check

    findings = check(file)
    Console().print(_table(("what", "found"), findings.facts))
    for warning in findings.warnings:
        _say(f"warning: {warning}", Console(), style="yellow")
    print("sound" if not findings.warnings else f"usable, with {len(findings.warnings)} warning(s)")


@app.command("gradcheck")
def gradcheck_command(
    name: Name,
    full: Annotated[
        bool, typer.Option("--full", help="At full size instead of the quick one.")
    ] = False,
) -> None:
    """Every derivative of a model against finite differences, as a table."""
    with exit_on_interrupt():
        from pliant.dynamics import gradcheck

    experiment = _experiment(name)
    with _busy("compiling, once, and checking"):
        checks = gradcheck(*experiment.probe(experiment.chosen(quick=not full)))
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
            help="Which benchmark: condensed, drive, fem, fluid, mpm, planning, scale or surrogate."
        ),
    ] = "fem",
    quick: Annotated[bool, typer.Option("--quick", help="The smallest sizes only.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the numbers as the last line of standard output.")
    ] = False,
) -> None:
    """Speed side by side with peers, as ratios from one run."""
    with exit_on_interrupt():
        from pliant.bench import bench

    with _busy("measuring; keep the machine otherwise idle"):
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
        str | None, typer.Argument(help="Which paper, such as 000; without it, what there is.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(parser=_path, metavar="FOLDER", help="By default results/paper-NAME."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller settings: minutes instead of an hour.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print result.json as the last line of standard output.")
    ] = False,
) -> None:
    """The tables and figures of a paper, theirs beside ours, measured on this machine."""
    with exit_on_interrupt():
        from pliant.papers import papers, reproduce

    if name is None:
        for paper, what in papers().items():
            print(f"{paper}  {what}")
        return
    try:
        with _progress() as progress:
            result = reproduce(name, out=out, quick=quick, progress=progress)
    except KeyboardInterrupt:
        _fail("Interrupted; run the same command again.", 130)
    _print_result(result, Path("results") / f"paper-{name}" if out is None else out)
    if as_json:
        print(json.dumps(result))
    raise typer.Exit(0 if result["status"] == "done" else 1)


def main() -> None:
    """Run the command line; every foreseen failure is one sentence."""
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
            f"Out of memory ({error}). A coarser mesh needs less; if it should fit, report the "
            "command as a defect.",
            1,
        )
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        where = "Standard output" if error.filename is None else str(error.filename)
        _fail(f"{where} cannot be used ({error.strerror}); check that place and its space.", 1)


def _open_missing_streams() -> None:
    """Give closed standard streams a place to go: files that are opened later must not become the
    standard output."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _flush_output() -> None:
    """Write what is left in the buffer of standard output. A reader that has gone is no failure; a
    full disk is one."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # where Python's own flush at the end goes
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        _fail(f"Standard output cannot be written ({error.strerror}); free some space.", 1)


def _fail(sentence: str, status: int) -> NoReturn:
    _say(f"pliant: {sentence}", style="red")
    sys.exit(status)


def _say(text: str, console: Console = screen, style: str | None = None) -> None:
    """Print a line of plain text, without escape sequences from names and files."""
    console.print(printable(text), style=style, markup=False, highlight=False, soft_wrap=True)


def _table(
    columns: Iterable[str], rows: Iterable[Iterable[Any]], title: str | None = None
) -> Table:
    """A table of plain text, without markup and escape sequences from names and files."""
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


def _experiment(name: str) -> Any:
    with exit_on_interrupt():
        from pliant.zoo.registry import find
        from pliant.zoo.task import task_experiment

    return (
        task_experiment(Path(name))
        if name.lower().endswith(".toml") or os.path.isfile(name)
        else find(name)
    )


def _opened(url: str, browser: bool) -> None:
    """Say where the page is; the address is a key, so the browser gets it from a file that no other
    user can read."""
    import webbrowser

    from pliant.viewer import signpost

    print(f"{url}", flush=True)
    _say("Whoever has this address can drive the robot. Ctrl-C ends.")
    if browser:
        webbrowser.open(signpost(url).as_uri())


def _pairs(texts: list[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise InputError(
                f"--set takes KEY=VALUE, not '{text[:60]}'; write for example --set dt=0.01."
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
    """A bar for each kind of work; they disappear at the end, and the result takes their place."""
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
    """Say what takes a while: a spinner on a terminal, one line elsewhere."""
    if sys.stderr.isatty():
        with screen.status(text):
            yield
    else:
        print(f"{text} ...", file=sys.stderr, flush=True)
        yield


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Fills at the first Ctrl-C, which ends the run at its next step; a second one ends it on the
    spot. An exception that is raised anywhere, as by default, can be lost inside a library's
    callback."""
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
        _say(note)
    _say(f"{result['name']}: {result['status']}")
    _say(f"took: {result['seconds']:.1f} s")
    for label, file in (("report", "report.html"), ("animation", "animation.mp4")):
        if (folder / file).is_file():
            _say(f"{label}: {folder / file}")


if __name__ == "__main__":
    main()
