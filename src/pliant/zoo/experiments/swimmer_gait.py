"""swimmer-gait: the swimming robot follows prescribed joint angles, a wave from head to tail."""

from pliant.swimming import prescribed_motion
from pliant.zoo.experiment import Experiment, ExperimentRun, Metric, Outcome
from pliant.zoo.experiments.swimmer_plan import probe
from pliant.zoo.swimming_report import angle_plot, locus_plot, potential_scene, torque_plot
from pliant.zoo.swimming_tasks import check, effort, forward_distance, swimmer_model, task


def perform(run: ExperimentRun) -> Outcome:
    swim = task(run.settings)
    model = swimmer_model(run, swim)
    gaits = {
        "wave": swim.gait(),
        "wave backwards": swim.gait(speed=-1.0),
        "half as fast": swim.gait(speed=0.5),
        "reciprocal": swim.gait(reciprocal=True),
    }
    motions = {}
    for k, (name, path) in enumerate(gaits.items()):
        run.progress("gaits", k, len(gaits))
        steps = 2 * swim.steps if name == "half as fast" else swim.steps
        motions[name] = prescribed_motion(model, path, steps=steps)
    wave = motions["wave"]
    forward = {name: forward_distance(model, motion.states) for name, motion in motions.items()}
    run.save_trajectory(wave.states, wave.torques, dt=swim.dt)
    still = abs(forward["reciprocal"]) < 1e-3 * abs(forward["wave"])
    metrics = {
        f"forward distance, {name}": Metric(value=value, unit="m")
        for name, value in forward.items()
    }
    metrics["effort of the wave"] = Metric(value=effort(wave.torques, swim.dt), unit="N²m²s")
    metrics["exact evaluations"] = Metric(value=model.surrogate.evaluations)
    names = {name: motion.states for name, motion in motions.items()}
    return Outcome(
        metrics=metrics,
        plots=[
            locus_plot(model, names, "Locus of the centre of mass"),
            angle_plot(model, wave.states, "Joint angles of the wave"),
            torque_plot(model, wave.torques, "Torques of the wave"),
        ],
        scene=potential_scene(model, wave.states, "swimmer-gait: a wave from head to tail"),
        reached=still,
        message="done"
        if still
        else f"the reciprocal gait swims {forward['reciprocal']:.2e} m, but it should not move. "
        "Take a smaller time step (--set dt=...).",
    )


EXPERIMENT = Experiment(
    name="swimmer-gait",
    paper="000",
    shows="four ellipsoids swim with a prescribed wave of their joint angles; a reciprocal gait "
    "does not move them",
    size="1,412 surface points, 3 hinges, 200 steps",
    takes="1 min",
    perform=perform,
    probe=probe,
    uses_cluster=True,
    check_settings=lambda settings: check(task(settings)),
    settings={
        "steps": 200,
        "dt": 0.02,
        "cell": 0.15,
        "points": 353,
        "amplitude": 0.6,
        "frequency": 2.0,
        "lag": 1.2,
        "small_animation": False,
    },
    quick={"steps": 75, "cell": 0.4, "points": 60, "small_animation": True},
)
