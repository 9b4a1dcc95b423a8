"""Entry point of `pliant` and `python -m pliant`. Ctrl-C during start-up prints no traceback."""

from pliant.interrupts import exit_on_interrupt


def main() -> None:
    """Load the command line and run it."""
    with exit_on_interrupt():
        from pliant.cli import main as command_line
    command_line()


if __name__ == "__main__":
    main()
