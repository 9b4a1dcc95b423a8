"""Functions of NumPy arrays for casadi and Ipopt."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from pliant.core import MissingExtra

CONVERGED = ("Solve_Succeeded", "Solved_To_Acceptable_Level")  # statuses of Ipopt


class Catching(Protocol):
    """What stores an exception that casadi would ignore."""

    caught: BaseException | None


def load_casadi(what: str) -> Any:
    """Return the module casadi. Raises MissingExtra, which says what needs it."""
    try:
        import casadi
    except ImportError as error:
        raise MissingExtra(f"{what} needs casadi with Ipopt: pip install 'pliant[nlp]'.") from error
    return casadi


def ipopt_solver(
    casadi: Any,
    name: str,
    program: dict[str, Any],
    parts: dict[str, Any],
    settings: dict[str, Any],
) -> Any:
    """Return Ipopt for a program, without output. `parts` are its derivatives and callback, and
    `settings` those of Ipopt. A failure is a status, not an exception."""
    return casadi.nlpsol(
        name,
        "ipopt",
        program,
        {
            **parts,
            "print_time": False,
            "calc_lam_p": False,
            "no_nlp_grad": True,
            "error_on_fail": False,
            "show_eval_warnings": False,
            "ipopt": {"print_level": 0, "sb": "yes", "bound_relax_factor": 0.0, **settings},
        },
    )


def numpy_callback(
    casadi: Any,
    run: Catching,
    name: str,
    ins: dict[str, Any],
    outs: dict[str, tuple[Any, Callable[..., Any]]],
) -> Any:
    """Return a casadi function of flat arrays.

    `ins` has the sparsity of each input, `outs` the sparsity and the function of each output. If a
    value is not finite, Ipopt shortens its step. An exception is stored in `run` and stops Ipopt.
    """
    given, made = list(ins.items()), list(outs.items())

    class NumpyCallback(casadi.Callback):
        def __init__(self) -> None:
            casadi.Callback.__init__(self)
            self.construct(name, {})

        def get_n_in(self) -> int:
            return len(given)

        def get_n_out(self) -> int:
            return len(made)

        def get_name_in(self, i: int) -> str:
            return given[i][0]

        def get_name_out(self, i: int) -> str:
            return made[i][0]

        def get_sparsity_in(self, i: int) -> Any:
            return given[i][1]

        def get_sparsity_out(self, i: int) -> Any:
            return made[i][1][0]

        def has_eval_buffer(self) -> bool:
            return True

        def eval_buffer(self, arg: Any, res: Any) -> int:
            try:
                inputs = [np.zeros(0) if part is None else np.frombuffer(part) for part in arg]
                for out, (_, (_, function)) in zip(res, made, strict=True):
                    if out is not None:
                        found = np.nan if run.caught is not None else function(*inputs)
                        if not np.all(np.isfinite(found)):
                            return 1
                        np.frombuffer(out)[:] = found
            except BaseException as error:
                run.caught = error
                return 1
            return 0

    return NumpyCallback()
