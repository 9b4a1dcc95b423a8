"""The rows of `pliant list`. They are stored in listing.json, because importing all experiments
takes seconds.

`python -m pliant.zoo.listing` writes the file again. A test compares it with the experiments.
"""

import json
from importlib import resources
from pathlib import Path

FIELDS = ("name", "paper", "size", "takes", "shows")


def listed_experiments() -> list[dict[str, str]]:
    """Return the fields of every experiment, from the file."""
    rows: list[dict[str, str]] = json.loads(
        resources.files("pliant.zoo").joinpath("listing.json").read_text()
    )
    return rows


def experiment_rows() -> list[dict[str, str]]:
    """Return the fields of every experiment, from the experiments."""
    from pliant.zoo.registry import EXPERIMENTS  # imports every experiment

    return [
        {name: getattr(experiment, name) for name in FIELDS} for experiment in EXPERIMENTS.values()
    ]


if __name__ == "__main__":
    text = json.dumps(experiment_rows(), indent=2, ensure_ascii=False)
    Path(__file__).with_name("listing.json").write_text(text + "\n")
