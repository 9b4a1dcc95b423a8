"""Training of a controller and of the autoencoder that it sees, in turn."""

from dataclasses import dataclass, replace
from typing import Any, final

from pliant.core import InputError, is_integer, quoted, require_seed
from pliant.learning.autoencoder import AutoencoderObserver
from pliant.learning.autoencoder_training import DEFAULTS, AutoencoderSettings, train_autoencoder
from pliant.learning.closed_loop import ClosedLoop
from pliant.learning.loop_episodes import LoopEpisodes
from pliant.learning.tasks import ControlTask
from pliant.learning.trainers import TrainingMethod
from pliant.learning.training import check_arguments, checked_method, run_training
from pliant.learning.training_result import TrainingResult
from pliant.progress import Progress, reporting


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AutoencoderRounds:
    """The trainings of a controller between those of its autoencoder."""

    rounds: tuple[TrainingResult, ...]
    autoencoders: tuple[AutoencoderObserver, ...]  # that the controller of each round sees

    @property
    def result(self) -> TrainingResult:
        """The training with the largest mean return."""
        return max(self.rounds, key=lambda one: one.mean_return)

    def show(self) -> None:
        """Print the training of each round and the error of its autoencoder."""
        for one, seen in zip(self.rounds, self.autoencoders, strict=True):
            print(f"{one.summary()}, reconstruction error {seen.history[-1]:.3g}")


def train_with_autoencoder(
    loop: ClosedLoop,
    task: ControlTask,
    method: str | TrainingMethod = "gradient",
    *,
    rounds: int = 3,
    iterations: int = 20,
    settings: AutoencoderSettings = DEFAULTS,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> AutoencoderRounds:
    """Train a controller and the autoencoder that it sees, in turn ("learning in the loop").

    Each round trains the controller for `iterations`, with the weights and the optimiser of the
    round before. Between rounds the autoencoder is trained further on the states that the best
    controllers visited. The observer of the loop is an AutoencoderObserver, or has one inside a
    StackedObserver or ScaledObserver. The other parameters are those of `train` and
    `train_autoencoder`; only the number of epochs, the batch, the rate and the divergence of the
    settings are used. Ctrl-C ends it with the rounds so far.

    Raises InputError for a loop without an autoencoder, and MissingExtra without PyTorch.
    """
    chosen = checked_method(method)
    check_arguments(loop, task, iterations)
    if not is_integer(rounds) or rounds < 1:
        raise InputError(f"The number of rounds is {quoted(rounds)}; give 1 or more.")
    autoencoder = _autoencoder_in(loop.observer)
    require_seed(seed)
    results: list[TrainingResult] = []
    seen: list[AutoencoderObserver] = []
    visited: list[Any] = []
    with reporting(progress) as report:
        for k in range(rounds):
            episodes = LoopEpisodes.draw(loop, task, count=chosen.episodes, seed=seed)
            found = run_training(
                episodes,
                chosen,
                iterations=iterations,
                seed=seed,
                start=results[-1] if results else None,
                progress=report,
            )
            results.append(found)
            seen.append(autoencoder)
            if found.interrupted or k + 1 == rounds:
                break
            visited += [episodes.run(found.weights, x).states for x in episodes.starts]
            autoencoder = train_autoencoder(
                loop.model,
                visited,
                settings=settings,
                seed=(seed + k + 1) % 2**32,
                start=autoencoder,
                progress=report,
            )
            loop = replace(loop, observer=_with_autoencoder(loop.observer, autoencoder))
    return AutoencoderRounds(rounds=tuple(results), autoencoders=tuple(seen))


def _autoencoder_in(observer: Any) -> AutoencoderObserver:
    """Return the autoencoder in an observer. Raises InputError unless there is exactly one."""
    left, found = [observer], []
    while left:
        one = left.pop()
        found += [one] if isinstance(one, AutoencoderObserver) else []
        left += [*getattr(one, "observers", ()), *filter(None, [getattr(one, "observer", None)])]
    if len(found) != 1:
        raise InputError(
            f"The observer of the loop has {len(found)} autoencoders; give it one, such as "
            "train_autoencoder(model, rollouts)."
        )
    return found[0]


def _with_autoencoder(observer: Any, autoencoder: AutoencoderObserver) -> Any:
    """Return an observer with another autoencoder."""
    if isinstance(observer, AutoencoderObserver):
        return autoencoder
    if hasattr(observer, "observers"):
        parts = [_with_autoencoder(one, autoencoder) for one in observer.observers]
        return replace(observer, observers=parts)
    if hasattr(observer, "observer"):
        return replace(observer, observer=_with_autoencoder(observer.observer, autoencoder))
    return observer
