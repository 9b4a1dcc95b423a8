"""Metrics and plots of trained swimmers."""

from collections.abc import Mapping, Sequence

import numpy as np

from pliant.report import Plot
from pliant.report.result_report import result_outcome
from pliant.zoo.experiment import Metric, Outcome, Setting
from pliant.zoo.refinement_report import STATE, PaperValues, optional_metric
from pliant.zoo.swimming_training import SwimTraining

LENGTHS = "body lengths"  # of 0.8 m, minus the effort


def training_outcome(
    found: Sequence[SwimTraining], settings: Mapping[str, Setting], title: str, paper: PaperValues
) -> Outcome:
    """Return the metrics of the first seed, plots of all seeds, and an animation of the first."""
    first = found[0]
    shown = result_outcome(first.refined.result, title=title)
    fault = shortcoming(found, float(settings["min_return"]), bool(settings["beat_wave"]))
    return Outcome(
        metrics=training_metrics(first, paper) | _seed_metrics(found),
        plots=[
            learning_plot(found),
            evaluation_plot(first),
            *(plot for plot in shown.plots if not plot.title.startswith("Learning curve")),
        ],
        scene=shown.scene,
        reached=not fault,
        message=fault or "done",
        notes=[*map(seed_note, found), *certificate_notes(found)],
    )


def shortcoming(found: Sequence[SwimTraining], least: float, must_beat_wave: bool) -> str:
    """Return why the trained controllers are not good enough; empty if they are."""
    worst = min(found, key=lambda one: one.after.mean_return)
    value = worst.after.mean_return
    if value < least:
        lack = f"below {least:g}"
    elif must_beat_wave and not all(map(beats_wave, found)):
        lack = f"not above that of a wave of torques, {worst.wave.mean_return:.3g}"
    else:
        return ""
    return (
        f"the mean return on new initial states is {value:.3g} body lengths, {lack}. Use more "
        "iterations (--set iterations=...)."
    )


def training_metrics(one: SwimTraining, paper: PaperValues) -> dict[str, Metric]:
    """Return returns, counts and errors. `paper` has "evaluations", "reduction", "steps", "error"
    and "levels"."""
    refined, certificate = one.refined, one.refined.certificate
    return {
        "mean return": Metric(value=refined.result.mean_return, unit=LENGTHS),
        "mean return before training": Metric(value=one.untrained_return, unit=LENGTHS),
        "mean return, new initial states": Metric(value=one.after.mean_return, unit=LENGTHS),
        "mean return before training, new initial states": Metric(
            value=one.before.mean_return, unit=LENGTHS
        ),
        "mean return of the best wave of torques, new initial states": Metric(
            value=one.wave.mean_return, unit=LENGTHS
        ),
        "return above that of the wave": Metric(value=beats_wave(one)),
        "mean forward distance, new initial states": Metric(value=one.after.distance, unit="m"),
        "return of the first episode": Metric(value=certificate.surrogate_return, unit=LENGTHS),
        **optional_metric(
            "return of the first episode with the exact added mass",
            certificate.exact_return,
            LENGTHS,
        ),
        "exact evaluations": Metric(value=one.evaluations, paper=paper.get("evaluations")),
        "environment steps": Metric(value=refined.steps, paper=paper.get("steps")),
        "reduction factor of environment steps": Metric(
            value=refined.steps / one.evaluations, paper=paper.get("reduction")
        ),
        **optional_metric("step error", certificate.step_error, STATE, paper.get("error")),
        **optional_metric("estimated step error", certificate.estimated_step_error, STATE),
        "exact evaluations of the replay": Metric(value=certificate.replay_evaluations),
        "refinement levels": Metric(value=len(refined.levels), paper=paper.get("levels")),
        "iterations": Metric(value=len(one.curve()[0]) - 1),
        "training time": Metric(
            value=sum(level.result.history[-1].seconds for level in refined.levels), unit="s"
        ),
    }


def beats_wave(one: SwimTraining) -> bool:
    """Return whether the trained controller has a larger return than the best wave."""
    return one.after.mean_return > one.wave.mean_return


def certificate_notes(found: Sequence[SwimTraining]) -> list[str]:
    """Return the lines of the certificate of every seed, with the seed if there are several."""
    return [
        f"seed {one.seed}: {line}" if len(found) > 1 else line
        for one in found
        for line in one.refined.certificate.lines()
    ]


def _seed_metrics(found: Sequence[SwimTraining]) -> dict[str, Metric]:
    """Return the mean and the lowest return of several seeds, and their largest step error."""
    returns = [one.after.mean_return for one in found]
    if len(returns) < 2:
        return {}
    errors = [one.refined.certificate.step_error for one in found]
    known = [error for error in errors if error is not None]
    largest = max(known) if len(known) == len(found) else None
    return {
        **optional_metric("largest step error of all seeds", largest, STATE),
        "mean return of all seeds, new initial states": Metric(
            value=float(np.mean(returns)), unit=LENGTHS
        ),
        "lowest return of all seeds, new initial states": Metric(value=min(returns), unit=LENGTHS),
    }


def seed_note(one: SwimTraining) -> str:
    """Return the result of a seed in one sentence."""
    return (
        f"seed {one.seed}: mean return {one.after.mean_return:.4g} body lengths on new initial "
        f"states, {one.before.mean_return:.2g} before training, {one.wave.mean_return:.4g} by the "
        f"best wave, {one.evaluations} exact evaluations, {one.refined.steps} environment steps"
    )


def learning_plot(found: Sequence[SwimTraining]) -> Plot:
    """Return the learning curves of all seeds over the environment steps."""
    return Plot(
        title="Learning curves",
        x="environment steps",
        y="mean return [body lengths]",
        series={f"seed {one.seed}": one.curve()[:2] for one in found},
    )


def evaluation_plot(one: SwimTraining, title: str = "Evaluations over the iterations") -> Plot:
    """Return the evaluations over the iterations, with and without a surrogate [Jia2019, Fig.
    5(c)]."""
    steps, _, evaluations = one.curve()
    count = np.arange(len(steps))
    return Plot(
        title=title,
        x="iteration",
        y="cumulative evaluations",
        log_y=True,
        kind="both",
        series={
            "with the grid": (count, evaluations),
            "without, one per environment step": (count[1:], steps[1:]),
        },
    )
