"""torch_layer: any Reversible model inside an autograd graph of PyTorch.

A call simulates in float64 with NumPy; backward applies the adjoint of the model's steps.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from pliant.argument_checks import check_index, check_model
from pliant.core import (
    Array,
    InputError,
    MissingExtra,
    Reversible,
    counted,
    finite_array,
    nearest,
    quoted,
    require_kind,
)
from pliant.learning.rollout_adjoint import RolloutAdjoint, check_checkpoints
from pliant.planners.checkpoints import Checkpoints

try:
    import torch
except ImportError as error:
    raise MissingExtra("The torch layer needs PyTorch: pip install 'pliant[learn]'.") from error

PRECISIONS = {"float32": torch.float32, "float64": torch.float64}


def torch_layer(
    model: Reversible, *, checkpoints: Checkpoints = "sqrt", precision: str | None = None
) -> "TorchLayer":
    """Return a model as a differentiable function of PyTorch tensors.

    Parameters
    ----------
    model : any Reversible model, also a ClosedLoop
    checkpoints : which steps of a rollout keep their tapes until backward: "all", "sqrt" (about
        sqrt(steps) at a time, the others are simulated again), or the largest memory of tapes in
        bytes
    precision : of the results, "float32" or "float64"; None for that of the given states. All
        computations are in float64.

    `layer(x, u, p)` returns the state after one step, `layer.rollout(x, controls, p)` the states
    of several steps. Raises InputError if the model has no vector-Jacobian products, and
    MissingExtra without PyTorch.

    >>> import torch, pliant as pl
    >>> mass = pl.Robot(
    ...     shape=pl.PointMass(points=[[0.0, 0.0]], mass_each=1.0),
    ...     actuators={"jet": pl.actuators.Thrust(point=(0.0, 0.0))},
    ... )
    >>> layer = pl.learning.torch_layer(pl.ImplicitEuler(mass, dt=0.1))
    >>> force = torch.tensor([2.0, 0.0], requires_grad=True)
    >>> x = layer(torch.zeros(4), force)  # positions and velocities
    >>> x[2].backward()
    >>> force.grad
    tensor([0.1000, 0.0000])
    """
    return TorchLayer(model=model, checkpoints=checkpoints, precision=precision)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TorchLayer:
    """A model as a differentiable function of tensors on the CPU; see `torch_layer`."""

    model: Reversible
    checkpoints: Checkpoints = "sqrt"
    precision: str | None = None

    def __post_init__(self) -> None:
        check_model(self.model)
        advice = "give one with vector-Jacobian products, such as ImplicitEuler(robot, dt=...)"
        require_kind("The model of a torch layer", self.model, Reversible, advice)
        check_checkpoints(self.checkpoints)
        if self.precision is not None and self.precision not in PRECISIONS:
            raise InputError(
                f"There is no precision {quoted(self.precision)}; "
                f"{nearest(self.precision, PRECISIONS)}"
            )

    def __call__(
        self,
        x: torch.Tensor,
        u: torch.Tensor | None = None,
        p: torch.Tensor | None = None,
        *,
        k: int = 0,
    ) -> torch.Tensor:
        """Return the state (n_state,) after one step, or the states (b, n_state) of a batch.

        `x` is (n_state,) or (b, n_state) and `u` (n_controls,) or (b, n_controls); None for a
        model without controls. `p` (params.size,) are the parameters, None for those of the
        model. `k` is the index of the step, for loads that depend on time.

        Raises InputError for tensors of other shapes, and StepError if a step fails.
        """
        if u is None:
            self._check_no_controls()
            u = torch.zeros(0)
        controls = _checked("The control", u, self.model.n_controls, (1, 2)).unsqueeze(-2)
        return self.rollout(x, controls, p, k=k)[..., -1, :]

    def _check_no_controls(self) -> None:
        if n := self.model.n_controls:
            raise InputError(f"The model has controls; give a tensor of shape ({n},).")

    def rollout(
        self, x0: torch.Tensor, controls: torch.Tensor, p: torch.Tensor | None = None, *, k: int = 0
    ) -> torch.Tensor:
        """Return the states (steps + 1, n_state) of a simulation, or (b, steps + 1, n_state) of a
        batch.

        `x0` is (n_state,) or (b, n_state), `controls` (steps, n_controls) or (b, steps,
        n_controls). A model without controls takes torch.zeros(steps, 0). `p` (params.size,) are
        the parameters, None for those of the model. `k` is the index of the first step.

        Raises InputError for tensors of other shapes, and StepError if a step fails.
        """
        x = _checked("The state", x0, self.model.space.size, (1, 2))
        u = _checked("The array of controls", controls, self.model.n_controls, (2, 3))
        if p is not None:
            _checked("The parameter vector", p, self.model.params.size, (1,))
        rows = len(x) if x.ndim == 2 else len(u) if u.ndim == 3 else 1
        if u.ndim == 3 and len(u) != rows:
            raise InputError(
                f"The layer got {counted(rows, 'state')} and {len(u)} arrays of controls; give as "
                "many."
            )
        states = _Rollout.apply(
            self,
            check_index(k),
            torch.is_grad_enabled(),
            x.expand(rows, -1),
            u.expand(rows, *u.shape[-2:]),
            p,
        )
        return states if x.ndim == 2 or u.ndim == 3 else states[0]


class _Rollout(torch.autograd.Function):
    """Rollouts as one node of the autograd graph."""

    @staticmethod
    def forward(
        ctx: Any,
        layer: TorchLayer,
        k: int,
        differentiate: bool,
        x: torch.Tensor,
        u: torch.Tensor,
        p: torch.Tensor | None,
    ) -> torch.Tensor:
        runs = RolloutAdjoint(
            model=layer.model,
            first=k,
            # copies, because the tensors may be changed before backward
            controls=_numpy("The array of controls", u).copy(),
            params=None if p is None else _numpy("The parameter vector", p).copy(),
            checkpoints=layer.checkpoints,
        )
        differentiate = differentiate and any(ctx.needs_input_grad)
        found = runs.simulate(_numpy("The state", x), differentiate=differentiate)
        states = torch.from_numpy(found)
        if differentiate:
            ctx.runs, ctx.dtypes = runs, [getattr(part, "dtype", None) for part in (x, u, p)]
            ctx.save_for_backward(states)
        return states.to(x.dtype if layer.precision is None else PRECISIONS[layer.precision])

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor) -> Any:
        if torch.is_grad_enabled():
            raise InputError(
                "The gradient of a torch layer has no derivative of its own; call backward or "
                "grad without create_graph=True."
            )
        (states,) = ctx.saved_tensors
        found = ctx.runs.pullback(states.numpy(), _numpy("The gradient by the states", bars[0]))
        wanted = zip(found, ctx.dtypes, ctx.needs_input_grad[3:], strict=True)
        gradients = [torch.from_numpy(g).to(dtype) if want else None for g, dtype, want in wanted]
        return None, None, None, *gradients


def _checked(name: str, value: Any, size: int, ndims: tuple[int, ...]) -> torch.Tensor:
    """Return a tensor on the CPU with rows of a size. Raises InputError for anything else."""
    require_kind(name, value, torch.Tensor, "give a torch tensor")
    if value.dtype not in PRECISIONS.values() or value.device.type != "cpu":
        raise InputError(
            f"{name} is a tensor of {value.dtype} on the device {value.device}; give one of "
            "torch.float32 or torch.float64 on the CPU."
        )
    if value.ndim not in ndims or value.shape[-1] != size or not all(value.shape[:-1]):
        shapes = {1: f"({size},)", 2: f"(n, {size})", 3: f"(b, steps, {size})"}
        raise InputError(
            f"{name} has shape {tuple(value.shape)}; give "
            f"{' or '.join(shapes[ndim] for ndim in ndims)}."
        )
    return value


def _numpy(name: str, tensor: torch.Tensor) -> Array:
    """Return the entries in float64, contiguous. Raises InputError unless they are finite."""
    array = tensor.detach().numpy()
    return np.ascontiguousarray(finite_array(name, array, array.shape))
