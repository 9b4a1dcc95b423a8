"""The viewer page in a headless Chromium. `make test` finds or installs Chromium; the environment
variable CHROMIUM selects another executable.

This command takes the pictures of the guide again:
PLIANT_PICTURES=docs/pictures pytest tests/viewer/test_browser.py -k pictures
"""

import csv
import io
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from served_robots import REACHABLE, served, small_arm

from pliant.contact import Contact, sphere
from pliant.dynamics import Quasistatic, equilibrium
from pliant.viewer import make_session
from pliant.viewer.chromium import chromium_flags, find_chromium
from pliant.zoo.robots import hydraulic_pendulum, line_arm

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the browser tests need playwright; install the extra dev"
)
pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="THE BROWSER TESTS ARE LEFT OUT: there is no Chromium or Chrome"
)


@pytest.fixture(scope="module")
def chrome():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=chromium_flags())
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def open_page(chrome):
    """open_page(url): open a window. Console errors and requests to other sites fail the test."""
    faults = []
    # Chromium logs this when a test stops the server
    connection_lost = "WebSocket connection to"

    def go(url, size=(900, 600), script="", **more):
        page = chrome.new_context(
            viewport={"width": size[0], "height": size[1]}, accept_downloads=True, **more
        ).new_page()
        page.add_init_script(script)
        page.on(
            "console",
            lambda m: (
                faults.append(m.text)
                if m.type == "error" and not m.text.startswith(connection_lost)
                else None
            ),
        )
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith(url) else faults.append(request.url),
        )
        page.goto(url)
        return page

    yield go
    assert faults == []


@pytest.fixture(scope="module")
def server_and_page(open_page):
    """Yield a server, the page that drives it, and the rest position of the laser [m]."""
    session = small_arm()
    start = session.effector_positions["laser"]
    with served(session) as running:
        page = open_and_wait(open_page, running)
        yield running, page, start
        page.context.close()


@pytest.fixture
def running(server_and_page):
    """Return the server, with the robot at rest."""
    running, page, start = server_and_page
    messages = (
        {"type": "pause", "on": False},
        {"type": "mode", "mode": "follow"},
        {"type": "colour", "by": "strain"},
        {"type": "reset"},
    )
    for message in messages:
        running.server.loop.receive(json.dumps(message))
    wait_until(
        page,
        lambda: (
            np.abs(effector_position(page) - start).max() < 1e-9 and status(page) == "at the target"
        ),
        "the robot does not return to rest",
    )
    return running


@pytest.fixture
def page(server_and_page, running):
    return server_and_page[1]


def wait_until(page, done, message="", seconds=40.0):
    """Return the first true value of `done()`. Fail with the message after `seconds`."""
    end = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < end, (
            f"{message}: {page.locator('#status').inner_text()} "
            f"{page.locator('#toast').text_content()}"
        )
        page.wait_for_timeout(30)
    return found


def frame_count(page) -> int:
    return int(page.locator("#view").get_attribute("data-frames") or 0)


def open_and_wait(open_page, running, **more):
    """Open a page and wait for its first frames."""
    page = open_page(running.url, **more)
    wait_until(page, lambda: frame_count(page) > 2, "no frames")
    return page


def effector_position(page, effector=0) -> np.ndarray:
    """Return the position [m] of an effector that the page shows."""
    return np.array(
        page.locator(".target").nth(effector).get_attribute("data-position").split(), float
    )


def target_position(page) -> np.ndarray:
    """Return the target position [m] in the panel."""
    return 1e-3 * np.array(
        [
            float(box.input_value())
            for box in page.locator(".target").first.locator(".axes input").all()
        ]
    )


def status(page) -> str:
    return page.locator("#status").inner_text()


def screenshot(page) -> np.ndarray:
    """Return the pixels (h, w, 3) of the page."""
    return np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"), int)


def canvas_pixels(page, shot=None) -> np.ndarray:
    """Return the pixels (h, w, 3) of the view, without the controls on top of it."""
    box = page.locator("#view").bounding_box()
    return (screenshot(page) if shot is None else shot)[
        90 : int(box["height"]) - 100, : int(box["width"])
    ]


def test_page_shows_the_robot(page, running):
    assert page.title() == "line_arm: drive"
    assert page.locator("#veil").is_hidden()
    pixels = canvas_pixels(page)
    coloured = np.ptp(pixels, axis=2) > 25
    rows, columns = np.nonzero(coloured)
    h, w = coloured.shape
    assert coloured.mean() > 0.02
    assert 0.35 * w < np.median(columns) < 0.65 * w
    assert np.ptp(rows) > 0.5 * h  # upright, and as tall as the view allows


def test_drag_moves_the_target_and_the_robot_follows(page, running):
    first, was = effector_position(page), target_position(page)
    x, y = (float(v) for v in page.locator("#view").get_attribute("data-target").split())
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 30, y + 4, steps=8)
    page.mouse.up()
    wait_until(
        page, lambda: np.linalg.norm(target_position(page) - was) > 5e-3, "the target did not move"
    )
    wait_until(
        page,
        lambda: status(page) == "at the target" or "out of reach" in status(page),
        "the robot does not settle",
    )
    target_motion, robot_motion = target_position(page) - was, effector_position(page) - first
    assert robot_motion @ target_motion > 0.8 * (target_motion @ target_motion)
    wait_until(
        page,
        lambda: np.allclose(
            running.session.effector_positions["laser"], effector_position(page), atol=1e-6
        ),
        "the page does not show the position of the robot",
    )


def test_drag_outside_the_target_rotates_the_view_only(page, running):
    target, before = target_position(page), canvas_pixels(page)
    page.mouse.move(150, 420)
    page.mouse.down()
    page.mouse.move(290, 380, steps=5)
    page.mouse.up()
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(200)
    assert np.abs(canvas_pixels(page) - before).mean() > 1.0
    np.testing.assert_array_equal(target_position(page), target)


def test_typed_target_is_reached_and_a_far_one_is_rejected(page, running):
    assert page.locator("#panel h2").first.text_content() == "Target [mm]"
    goal = effector_position(page) + REACHABLE
    for box, value in zip(page.locator(".axes input").all()[:3], 1e3 * goal, strict=True):
        box.fill(f"{value:.4f}")
        box.press("Enter")
    wait_until(
        page,
        lambda: np.abs(effector_position(page) - goal).max() < 5e-5,
        "the typed target is not reached",
    )
    page.locator(".axes input").first.fill("1e9")
    page.locator(".axes input").first.press("Enter")
    wait_until(page, lambda: page.locator("#toast").is_visible(), "no error is shown")
    assert "move it closer" in page.locator("#toast").inner_text()


def test_keys_pause_reset_and_change_the_colour(page, running):
    page.locator("#view").focus()
    page.keyboard.press("Space")
    wait_until(page, lambda: status(page) == "paused")
    page.keyboard.press("Space")
    wait_until(page, lambda: status(page) != "paused")
    was = target_position(page)
    page.keyboard.press("Shift+ArrowRight")
    wait_until(
        page,
        lambda: np.linalg.norm(target_position(page) - was) > 1e-3,
        "arrows do not move the target",
    )
    page.keyboard.press("0")
    wait_until(page, lambda: np.abs(target_position(page) - was).max() < 1e-5, "no reset")
    page.keyboard.press("c")
    wait_until(
        page,
        lambda: page.locator("#legend").is_hidden(),
        "the legend stays visible without colours",
    )
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#help").is_hidden()


def test_page_sends_nothing_before_first_frame(open_page, arm):
    sent = []
    with served(arm) as other:
        loop = other.server.loop
        loop.set_watched, loop.receive = (
            lambda on: None,
            sent.append,
        )  # the page gets its scene, and no frame
        page = open_page(other.url)
        wait_until(page, lambda: page.locator(".axes input").count(), "no scene")
        for key in (" ", "c", "m", "r", "p", "0", "ArrowLeft"):
            page.keyboard.press(key)
        page.locator(".target input").first.click()
        page.locator(".axes input").first.fill("1")
        page.locator(".axes input").first.press("Enter")
        page.locator(".actuator input").first.fill("3")
        del loop.set_watched
        loop.set_watched(True)
        wait_until(page, lambda: frame_count(page) > 0, "no frame")
        wait_until(page, lambda: sent, "the frame is not acknowledged")
        assert {json.loads(text)["type"] for text in sent} == {"seen"}
        page.context.close()


def test_slider_moves_robot_in_manual_mode(page, running):
    first, slider = effector_position(page), page.locator(".actuator input").first
    assert slider.is_disabled()
    page.locator("#mode button").nth(1).click()
    wait_until(page, lambda: slider.is_enabled(), "still not in manual mode")
    box = slider.bounding_box()
    page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"])
    wait_until(page, lambda: running.session.state.u[0] > 4.0, "no tension")
    wait_until(
        page,
        lambda: effector_position(page)[0] < first[0] - 5e-3,
        "the arm does not bend towards the cable in tension",
    )


def test_slider_keeps_commands_of_other_sliders(page, running, monkeypatch):
    """The control steps are slow, so that frames still show the state before the last command."""
    page.locator("#mode button").nth(1).click()
    sliders = page.locator(".actuator input")
    wait_until(page, lambda: sliders.first.is_enabled(), "still not in manual mode")
    monkeypatch.setattr(running.server.loop, "before_step", lambda session: time.sleep(0.3))
    for k, share in enumerate((0.3, 0.5, 0.4)):
        seen, box = frame_count(page), sliders.nth(k).bounding_box()
        sliders.nth(k).click(position={"x": share * box["width"], "y": 0.5 * box["height"]})
        wait_until(page, lambda seen=seen: frame_count(page) > seen, "no frame")
    wait_until(page, lambda: running.session.command.controls[2] > 0.0, "no command")
    np.testing.assert_allclose(
        running.session.command.controls, [6.0, 10.0, 8.0, 0.0], atol=1.5
    )  # [N]


def test_held_key_acts_once_and_held_arrow_repeats(page, running):
    page.locator("#view").focus()
    page.keyboard.down(" ")
    wait_until(page, lambda: status(page) == "paused")
    for _ in range(3):
        page.keyboard.down(" ")  # the key repeats
    seen = frame_count(page)
    wait_until(page, lambda: frame_count(page) > seen + 2)
    assert status(page) == "paused"
    page.keyboard.up(" ")
    was = target_position(page)
    page.keyboard.down("ArrowRight")
    once = wait_until(
        page, lambda: np.linalg.norm(target_position(page) - was), "arrows do not move the target"
    )
    for _ in range(4):
        page.keyboard.down("ArrowRight")
    page.keyboard.up("ArrowRight")
    wait_until(
        page,
        lambda: np.linalg.norm(target_position(page) - was) > 4.5 * once,
        "a held arrow key does not repeat",
    )


SLOW_FRAMES = (
    "const soon = requestAnimationFrame; window.requestAnimationFrame = (work) => setTimeout(() "
    "=> soon(work), 60);"
)
PIXEL_RATIO = (
    "() => document.getElementById('view').width / document.getElementById('view').clientWidth"
)
ANTIALIASED = (
    "() => document.getElementById('view').getContext('webgl2').getContextAttributes().antialias"
)


def test_software_rendering_lowers_the_resolution_of_slow_frames(open_page, arm):
    with served(arm) as other:
        page = open_and_wait(open_page, other, device_scale_factor=2)
        assert page.evaluate(PIXEL_RATIO) <= 1.0
        assert not page.evaluate(ANTIALIASED)
        page.context.close()
        page = open_and_wait(open_page, other, script=SLOW_FRAMES)
        wait_until(page, lambda: page.evaluate(PIXEL_RATIO) < 0.51, "the resolution does not fall")
        seen = frame_count(page)
        wait_until(page, lambda: frame_count(page) > seen + 10, "no frames")
        assert page.evaluate(PIXEL_RATIO) > 0.49
        page.context.close()


LOSE_CONTEXT = """async () => {
  const canvas = document.getElementById("view"), card = canvas.getContext("webgl2").getExtension("WEBGL_lose_context");
  for (const [event, act] of [["webglcontextlost", () => card.loseContext()], ["webglcontextrestored", () => card.restoreContext()]]) {
    const done = new Promise((resolve) => canvas.addEventListener(event, () => setTimeout(resolve), { once: true }));
    act();
    await done;
  }
}"""  # noqa: E501
GPU_OBJECTS = ("WebGLBuffer", "WebGLVertexArrayObject", "WebGLProgram", "WebGLShader")


def test_lost_webgl_context_is_restored_without_leaks(page, running):
    counts = []
    for _ in range(3):
        page.evaluate(LOSE_CONTEXT)
        seen = frame_count(page)
        wait_until(
            page, lambda seen=seen: frame_count(page) > seen + 3, "no frames"
        )  # the page creates some objects with the first frame that uses them
        wait_until(
            page,
            lambda: (np.ptp(canvas_pixels(page), axis=2) > 25).mean() > 0.02,
            "nothing is drawn after the context loss",
        )
        counts.append(count_gpu_objects(page))
    assert counts[2] == counts[1]
    assert (
        page.evaluate("() => document.getElementById('view').getContext('webgl2').getError()") == 0
    )


def count_gpu_objects(page) -> dict[str, int]:
    """Count the WebGL objects of the page after a garbage collection."""
    tools, count = page.context.new_cdp_session(page), {}
    for kind in GPU_OBJECTS:
        prototype = tools.send("Runtime.evaluate", {"expression": f"{kind}.prototype"})["result"][
            "objectId"
        ]
        found = tools.send("Runtime.queryObjects", {"prototypeObjectId": prototype})["objects"][
            "objectId"
        ]
        length = {"objectId": found, "functionDeclaration": "function () { return this.length; }"}
        count[kind] = tools.send("Runtime.callFunctionOn", length)["result"]["value"]
    tools.detach()
    return count


def test_recording_is_made_replayed_and_downloaded(page, running):
    page.locator("#view").focus()
    page.keyboard.press("r")
    wait_until(
        page,
        lambda: "Recording" in page.locator("#recorded").inner_text(),
        "the recording does not start",
    )
    page.keyboard.press("Shift+ArrowRight")
    wait_until(page, lambda: running.session.recorder and len(running.session.recorder.rows) > 20)
    page.locator("#record").click()
    wait_until(page, lambda: page.locator("#replay").is_enabled(), "the recording does not end")
    with page.expect_download() as download:
        page.locator("#csv").click()
    rows = list(csv.reader(Path(download.value.path()).read_text().splitlines()))
    assert download.value.suggested_filename == "commands.csv"
    assert len(rows) == running.session.last_recording.n_steps + 1
    np.testing.assert_array_equal(
        np.array(rows[-1][1:], float), running.session.last_recording.controls[-1]
    )
    with page.expect_download() as download:
        page.locator("#plan").click()
    assert json.loads(Path(download.value.path()).read_text())["method"] == "drive"
    page.locator("#replay").click()
    wait_until(page, lambda: status(page) == "manual", "the replay does not end")
    np.testing.assert_allclose(
        running.session.state.u, running.session.last_recording.controls[-1], atol=1e-9
    )


def test_second_browser_shows_a_message_and_can_take_over(open_page, page, running):
    first, second = page, open_page(running.url)
    wait_until(second, lambda: second.locator("#veil-button").is_visible(), "no message is shown")
    assert "Another page drives this robot." in second.locator("#veil-text").inner_text()
    assert first.locator("#veil").is_hidden()
    second.locator("#veil-button").click()
    wait_until(second, lambda: frame_count(second) > 2, "the second page does not take over")
    wait_until(
        first, lambda: first.locator("#veil-button").is_visible(), "the first page shows no message"
    )
    second.context.close()
    first.locator("#veil-button").click()  # the first page takes over again
    wait_until(
        first, lambda: first.locator("#veil").is_hidden(), "the first page does not take over again"
    )


def test_reload_continues_and_lost_connection_is_reported(open_page, arm):
    with served(arm) as other:
        page = open_and_wait(open_page, other, size=(400, 760))
        _check_narrow_layout(page)
        k = other.session.state.k
        page.reload()
        wait_until(page, lambda: frame_count(page) > 2, "no frames after a reload")
        assert other.session.state.k > k
    wait_until(
        page,
        lambda: "Connection lost" in page.locator("#veil-title").inner_text(),
        "the lost connection is not reported",
    )
    page.context.close()


def _check_narrow_layout(page):
    """Check that a narrow window shows the robot above the panel."""
    view, panel = (page.locator(name).bounding_box() for name in ("#view", "#panel"))
    assert view["width"] == panel["width"] == 400
    assert view["height"] > 300
    assert panel["y"] >= view["height"] - 1
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 400


def test_guide_pictures_show_robot_obstacle_and_liquid(open_page, tmp_path):
    """An arm moves past a ball, and water loads the walls of a pendulum."""
    folder, fine = (
        Path(os.environ.get("PLIANT_PICTURES", tmp_path)),
        "PLIANT_PICTURES" in os.environ,
    )
    arm = replace(
        line_arm(layers=12, across=3 if fine else 2),
        contacts=[Contact(obstacle=sphere((0.085, -0.02, 0.12), 0.035))],
    )
    pixels = _save_picture(
        open_page, arm, np.array([4.0, 6.0, 10.0, 4.0]), {}, folder / "drive-arm.png", fine
    )
    grey = np.ptp(pixels, axis=2) < 22
    dark = pixels.max(axis=2) < 205
    assert (grey & dark).mean() > 0.01  # the ball is grey
    pendulum = hydraulic_pendulum(order=2 if fine else 1)
    controls = np.array([0.0, 0.0, 9e3, 6e3])
    pixels = _save_picture(
        open_page,
        pendulum,
        controls,
        {"type": "colour", "by": "weight"},
        folder / "drive-pendulum.png",
        fine,
    )
    warm = pixels[..., 0] - pixels[..., 2] > 30
    assert warm.mean() > 0.005  # the surface where the load of the liquid is largest


def _save_picture(open_page, robot, controls, message, path, fine):
    """Move the robot to the equilibrium of the controls and save a picture of the page.

    Return its pixels (h, w, 3).
    """
    session = make_session(robot)
    name, q = session.active[0], equilibrium(Quasistatic(robot), controls).x
    if message:
        session.handle_message(message)
    session.handle_message(
        {"type": "target", "effector": name, "at": robot.effector_position(name, q).tolist()}
    )
    for _ in range(40):
        session.step()
    with served(session) as running:
        page = open_and_wait(open_page, running, size=(1240, 760) if fine else (800, 500))
        wait_until(page, lambda: frame_count(page) > (12 if fine else 3), "no frames")
        shot = screenshot(page)
        Image.fromarray((shot // 4 * 4 + 3).astype(np.uint8)).save(
            path, optimize=True
        )  # fewer colour levels, which halves the size of the file
        pixels = canvas_pixels(page, shot)
        page.context.close()
    return pixels
