"""The command `pliant`, and `python -m pliant`: quiet when it is interrupted while it starts."""

from pliant.interrupts import exit_on_interrupt


def main() -> None:
    """Load the command line and run it."""
    with exit_on_interrupt():
        from pliant.cli import main as command_line
    command_line()


if __name__ == "__main__":
    main()
