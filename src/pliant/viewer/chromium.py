"""Find an installed Chromium or Chrome, for benchmarks and tests of the page."""

import os
import shutil

EXECUTABLES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# No background services; WebGL by software rendering if there is no graphics card.
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
    """Return the path of a browser: $CHROMIUM, else the first installed one, or None."""
    chosen = os.environ.get("CHROMIUM")
    return chosen or next((path for name in EXECUTABLES if (path := shutil.which(name))), None)


def chromium_flags() -> list[str]:
    """Return flags of a headless browser. Root cannot use the sandbox."""
    return [*FLAGS, *(["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else [])]
