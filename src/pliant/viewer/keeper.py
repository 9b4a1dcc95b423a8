"""Keeper: puts a recording on disk, and parts of it while it is under way, so that a program that
is killed loses a few seconds."""

import json
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Thread
from time import perf_counter

from pliant.core import PliantError
from pliant.store import write_atomic
from pliant.viewer.recorder import Recorder
from pliant.viewer.recording import PART, Recording

OFTEN = 2.0  # [s] from one part to the next, at least


@dataclass(kw_only=True)
class Keeper:
    """Parts are written in a thread of their own: a disk may take longer than a tick."""

    folder: Path  # of all recordings
    recorder: Recorder
    lost: str = ""  # why the last part could not be written

    def __post_init__(self) -> None:
        self._home: Path | None = None  # of this one, as soon as there is something to put there
        self._parts, self._kept = 0, 0  # and the rows in them
        self._due = perf_counter() + OFTEN
        self._writing: Thread | None = None

    def keep(self) -> None:
        """Write what is new, unless a part was written a moment ago or still is."""
        if perf_counter() < self._due or (self._writing is not None and self._writing.is_alive()):
            return
        self._due = perf_counter() + OFTEN
        self._writing = Thread(
            target=self._write,
            args=(self.recorder.recording(self._kept),),
            name="pliant-keep",
            daemon=True,
        )
        self._writing.start()

    def _write(self, new: Recording) -> None:
        try:
            write_atomic(
                self._made() / PART.format(self._parts),
                json.dumps(new.rows() if self._parts else new.content()),
            )
        except (OSError, PliantError) as error:  # the next part holds it too
            self.lost = str(error)
        else:
            self._parts, self._kept, self.lost = self._parts + 1, self._kept + new.ticks, ""

    def finish(self, recording: Recording) -> str:
        """The whole recording in place of its parts; what was wrong with that, or nothing."""
        if self._writing is not None:
            self._writing.join()
        try:
            recording.save(self._made())
        except (OSError, PliantError) as error:
            parts = (
                f"; parts of it are in {self._home}, which --replay plays too"
                if self._parts
                else ""
            )
            return f"The recording could not be saved in {self.folder} ({error}){parts}"
        return ""

    def _made(self) -> Path:
        """The folder of this recording, which nobody else has."""
        if self._home is None:
            home = _next_free(self.folder)
            home.mkdir(parents=True)
            self._home = home
        return self._home


def _next_free(folder: Path) -> Path:
    """The first recording-001, recording-002, ... that is not there yet, so that none is lost."""
    return next(place for k in count(1) if not (place := folder / f"recording-{k:03d}").exists())
