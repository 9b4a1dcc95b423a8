"""Recording writer: saves a recording, and parts of it while it runs. A killed program loses only
the last seconds."""

import json
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Thread
from time import perf_counter

from pliant.core import PliantError
from pliant.store import write_atomic
from pliant.viewer.recorder import Recorder
from pliant.viewer.recording import PART_NAME, Recording

WRITE_INTERVAL = 2.0  # [s] minimum time between two parts


@dataclass(kw_only=True)
class RecordingWriter:
    """A writer with a background thread, since a disk may be slower than a control period."""

    folder: Path  # of all recordings
    recorder: Recorder
    write_error: str = ""  # why the last part could not be written

    def __post_init__(self) -> None:
        self._home: Path | None = None  # folder of this recording, created with its first part
        self._parts, self._written = 0, 0  # numbers of parts and of the rows in them
        self._due = perf_counter() + WRITE_INTERVAL
        self._writing: Thread | None = None

    def write_new_rows(self) -> None:
        """Write the new rows in the background, unless a part was written recently or is being
        written."""
        if perf_counter() < self._due or (self._writing is not None and self._writing.is_alive()):
            return
        self._due = perf_counter() + WRITE_INTERVAL
        self._writing = Thread(
            target=self._write_part,
            args=(self.recorder.recording(self._written),),
            name="pliant-recording",
            daemon=True,
        )
        self._writing.start()

    def _write_part(self, new: Recording) -> None:
        try:
            write_atomic(
                self._create_home() / PART_NAME.format(self._parts),
                json.dumps(new.rows() if self._parts else new.content()),
            )
        except (OSError, PliantError) as error:  # the next part contains these rows too
            self.write_error = str(error)
        else:
            self._parts, self._written = self._parts + 1, self._written + new.n_steps
            self.write_error = ""

    def finish(self, recording: Recording) -> str:
        """Replace the parts by the whole recording. Return an error message, or "" on success."""
        if self._writing is not None:
            self._writing.join()
        try:
            recording.save(self._create_home())
        except (OSError, PliantError) as error:
            parts = (
                f"; parts of it are in {self._home}, and --replay can play them"
                if self._parts
                else ""
            )
            return f"The recording could not be saved in {self.folder} ({error}){parts}"
        return ""

    def _create_home(self) -> Path:
        """Return the folder of this recording; create it at the first call."""
        if self._home is None:
            home = _next_free(self.folder)
            home.mkdir(parents=True)
            self._home = home
        return self._home


def _next_free(folder: Path) -> Path:
    """Return the first of recording-001, recording-002, ... that does not exist."""
    return next(path for k in count(1) if not (path := folder / f"recording-{k:03d}").exists())
