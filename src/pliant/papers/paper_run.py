"""One reproduction of a paper: its folder, and the runs of the experiments that it measures."""

from dataclasses import dataclass
from pathlib import Path

from pliant.progress import Progress
from pliant.report.result_folder import ORIGIN, check_origin
from pliant.store import read_json, remove_files, write_json
from pliant.zoo.experiment import ExperimentRun
from pliant.zoo.registry import find


@dataclass(frozen=True, kw_only=True)
class PaperRun:
    """The folder and the options of a reproduction. With `resume`, exact evaluations and trainings
    of an interrupted reproduction in the folder are used again."""

    paper: str
    folder: Path
    quick: bool
    progress: Progress
    resume: bool = False

    def experiment(self, name: str) -> ExperimentRun:
        """Return the run of an experiment with its default settings, in a folder of its own."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return ExperimentRun(
            settings=find(name).resolve_settings(quick=self.quick),
            folder=folder,
            identity=f"paper-{self.paper}-{name}",
            resume=self.resume,
            progress=self.progress,
        )

    def begin(self) -> None:
        """Record the options. Raises InputError if others were used in the folder to resume."""
        origin = ExperimentRun(
            settings={"quick": self.quick}, folder=self.folder, identity=f"paper-{self.paper}"
        ).origin
        if self.resume and (self.folder / ORIGIN).is_file():
            check_origin(self.folder, origin, read_json(self.folder / ORIGIN))
        write_json(self.folder / ORIGIN, origin)

    def end(self) -> None:
        """Remove the record; a complete result has its own."""
        remove_files(self.folder, ORIGIN)
