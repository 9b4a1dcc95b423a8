"""A Chromium or Chrome of this machine, for benchmarks and tests that look at the page as a person
does."""

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Quiet, and with WebGL by the processor where there is no graphics card.
FLAGS = (
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-extensions",
    "--mute-audio",
)


def find_chromium() -> str | None:
    """The path of a browser: what CHROMIUM says, or the first that is installed."""
    said = os.environ.get("CHROMIUM")
    return said or next((path for name in NAMES if (path := shutil.which(name))), None)


def chromium_flags() -> list[str]:
    """For a browser without a window; as root it cannot have its sandbox."""
    return [*FLAGS, *(["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else [])]
