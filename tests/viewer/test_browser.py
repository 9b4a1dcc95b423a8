"""The page as a person sees it, in a real Chromium without a window. `make test` finds or installs
one; CHROMIUM names another.

PLIANT_PICTURES=docs/pictures pytest tests/viewer/test_browser.py -k pictures   takes the pictures
of the guide anew.
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
    """open_page(url): a new window, which must not complain or look elsewhere."""
    faults = []
    # what Chromium says of a server that has ended, as a test wants it to
    gone = "WebSocket connection to"

    def go(url, size=(900, 600), script="", **more):
        page = chrome.new_context(
            viewport={"width": size[0], "height": size[1]}, accept_downloads=True, **more
        ).new_page()
        page.add_init_script(script)
        page.on(
            "console",
            lambda m: (
                faults.append(m.text) if m.type == "error" and not m.text.startswith(gone) else None
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
def live(open_page):
    """(a server, the page that drives it, where the laser is at rest)"""
    session = small_arm()
    start = session.effector_positions["laser"]
    with served(session) as stand:
        page = opened(open_page, stand)
        yield stand, page, start
        page.context.close()


@pytest.fixture
def stand(live):
    """The server, with the robot at rest."""
    stand, page, start = live
    messages = (
        {"type": "pause", "on": False},
        {"type": "mode", "mode": "follow"},
        {"type": "colour", "by": "strain"},
        {"type": "reset"},
    )
    for message in messages:
        stand.server.loop.receive(json.dumps(message))
    wait(
        page,
        lambda: np.abs(place(page) - start).max() < 1e-9 and status(page) == "at the target",
        "no rest",
    )
    return stand


@pytest.fixture
def page(live, stand):
    return live[1]


def wait(page, done, what="", seconds=40.0):
    end = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < end, (
            f"{what}: {page.locator('#status').inner_text()} "
            f"{page.locator('#toast').text_content()}"
        )
        page.wait_for_timeout(30)
    return found


def frames(page) -> int:
    return int(page.locator("#view").get_attribute("data-frames") or 0)


def opened(open_page, stand, **more):
    page = open_page(stand.url, **more)
    wait(page, lambda: frames(page) > 2, "no frames")
    return page


def place(page, effector=0) -> np.ndarray:
    """[m] where the page says that an effector is."""
    return np.array(
        page.locator(".target").nth(effector).get_attribute("data-position").split(), float
    )


def typed(page) -> np.ndarray:
    """[m] the target in the panel."""
    return 1e-3 * np.array(
        [
            float(box.input_value())
            for box in page.locator(".target").first.locator(".axes input").all()
        ]
    )


def status(page) -> str:
    return page.locator("#status").inner_text()


def screenshot(page) -> np.ndarray:
    """(h, w, 3)"""
    return np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"), int)


def canvas_pixels(page, shot=None) -> np.ndarray:
    """(h, w, 3) what the picture shows, without what stands before it."""
    box = page.locator("#view").bounding_box()
    return (screenshot(page) if shot is None else shot)[
        90 : int(box["height"]) - 100, : int(box["width"])
    ]


def test_the_page_opens_and_the_robot_is_seen(page, stand):
    assert page.title() == "line_arm: drive"
    assert page.locator("#veil").is_hidden()
    pixels = canvas_pixels(page)
    coloured = np.ptp(pixels, axis=2) > 25
    rows, columns = np.nonzero(coloured)
    h, w = coloured.shape
    assert coloured.mean() > 0.02
    assert 0.35 * w < np.median(columns) < 0.65 * w
    assert np.ptp(rows) > 0.5 * h  # upright, and as tall as the picture allows


def test_a_drag_moves_the_target_and_the_robot_follows(page, stand):
    first, was = place(page), typed(page)
    x, y = (float(v) for v in page.locator("#view").get_attribute("data-target").split())
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 30, y + 4, steps=8)
    page.mouse.up()
    wait(page, lambda: np.linalg.norm(typed(page) - was) > 5e-3, "the target did not move")
    wait(
        page,
        lambda: status(page) == "at the target" or "out of reach" in status(page),
        "it does not settle",
    )
    way, came = typed(page) - was, place(page) - first
    assert came @ way > 0.8 * (way @ way)
    np.testing.assert_allclose(stand.session.effector_positions["laser"], place(page), atol=1e-6)


def test_a_drag_elsewhere_turns_the_view_and_leaves_the_target(page, stand):
    target, before = typed(page), canvas_pixels(page)
    page.mouse.move(150, 420)
    page.mouse.down()
    page.mouse.move(290, 380, steps=5)
    page.mouse.up()
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(200)
    assert np.abs(canvas_pixels(page) - before).mean() > 1.0
    np.testing.assert_array_equal(typed(page), target)


def test_a_typed_target_is_reached_and_a_mad_one_is_refused(page, stand):
    assert page.locator("#panel h2").first.text_content() == "Target [mm]"
    goal = place(page) + REACHABLE
    for box, value in zip(page.locator(".axes input").all()[:3], 1e3 * goal, strict=True):
        box.fill(f"{value:.4f}")
        box.press("Enter")
    wait(page, lambda: np.abs(place(page) - goal).max() < 5e-5, "the typed target is not reached")
    page.locator(".axes input").first.fill("1e9")
    page.locator(".axes input").first.press("Enter")
    wait(page, lambda: page.locator("#toast").is_visible(), "nothing is said")
    assert "move it closer" in page.locator("#toast").inner_text()


def test_keys_pause_reset_and_colour(page, stand):
    page.locator("#view").focus()
    page.keyboard.press("Space")
    wait(page, lambda: status(page) == "paused")
    page.keyboard.press("Space")
    wait(page, lambda: status(page) != "paused")
    was = typed(page)
    page.keyboard.press("Shift+ArrowRight")
    wait(page, lambda: np.linalg.norm(typed(page) - was) > 1e-3, "arrows do not move the target")
    page.keyboard.press("0")
    wait(page, lambda: np.abs(typed(page) - was).max() < 1e-5, "no reset")
    page.keyboard.press("c")
    wait(page, lambda: page.locator("#legend").is_hidden(), "plain has no legend")
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
        wait(page, lambda: page.locator(".axes input").count(), "no scene")
        for key in (" ", "c", "m", "r", "p", "0", "ArrowLeft"):
            page.keyboard.press(key)
        page.locator(".target input").first.click()
        page.locator(".axes input").first.fill("1")
        page.locator(".axes input").first.press("Enter")
        page.locator(".actuator input").first.fill("3")
        del loop.set_watched
        loop.set_watched(True)
        wait(page, lambda: frames(page) > 0, "no frame")
        wait(page, lambda: sent, "the frame is not answered")
        assert {json.loads(text)["type"] for text in sent} == {"seen"}
        page.context.close()


def test_slider_moves_robot_in_manual_mode(page, stand):
    first, slider = place(page), page.locator(".actuator input").first
    assert slider.is_disabled()
    page.locator("#mode button").nth(1).click()
    wait(page, lambda: slider.is_enabled(), "still not in manual mode")
    box = slider.bounding_box()
    page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"])
    wait(page, lambda: stand.session.state.u[0] > 4.0, "no tension")
    wait(
        page,
        lambda: place(page)[0] < first[0] - 5e-3,
        "the arm does not bend to the line that pulls",
    )


def test_a_slider_keeps_what_is_wished_of_the_others(page, stand, monkeypatch):
    """Also where frames still tell of the time before the last wish, as with a robot that ticks
    slowly."""
    page.locator("#mode button").nth(1).click()
    sliders = page.locator(".actuator input")
    wait(page, lambda: sliders.first.is_enabled(), "still not in manual mode")
    monkeypatch.setattr(stand.server.loop, "before_step", lambda session: time.sleep(0.3))
    for k, share in enumerate((0.3, 0.5, 0.4)):
        seen, box = frames(page), sliders.nth(k).bounding_box()
        sliders.nth(k).click(position={"x": share * box["width"], "y": 0.5 * box["height"]})
        wait(page, lambda seen=seen: frames(page) > seen, "no frame")
    wait(page, lambda: stand.session.command.controls[2] > 0.0, "no command")
    np.testing.assert_allclose(
        stand.session.command.controls, [6.0, 10.0, 8.0, 0.0], atol=1.5
    )  # [N]


def test_a_key_that_is_held_says_once_what_it_says_and_arrows_go_on(page, stand):
    page.locator("#view").focus()
    page.keyboard.down(" ")
    wait(page, lambda: status(page) == "paused")
    for _ in range(3):
        page.keyboard.down(" ")  # held, so that it repeats
    seen = frames(page)
    wait(page, lambda: frames(page) > seen + 2)
    assert status(page) == "paused"
    page.keyboard.up(" ")
    was = typed(page)
    page.keyboard.down("ArrowRight")
    once = wait(page, lambda: np.linalg.norm(typed(page) - was), "arrows do not move the target")
    for _ in range(4):
        page.keyboard.down("ArrowRight")
    page.keyboard.up("ArrowRight")
    wait(
        page, lambda: np.linalg.norm(typed(page) - was) > 4.5 * once, "a held arrow does not go on"
    )


LATE = (
    "const soon = requestAnimationFrame; window.requestAnimationFrame = (work) => setTimeout(() "
    "=> soon(work), 60);"
)
DENSITY = (
    "() => document.getElementById('view').width / document.getElementById('view').clientWidth"
)
SMOOTH = (
    "() => document.getElementById('view').getContext('webgl2').getContextAttributes().antialias"
)


def test_without_a_graphics_card_a_picture_has_no_more_pixels_than_the_page_and_fewer_where_it_is_late(  # noqa: E501
    open_page, arm
):
    with served(arm) as other:
        page = opened(open_page, other, device_scale_factor=2)
        assert page.evaluate(DENSITY) <= 1.0
        assert not page.evaluate(SMOOTH)
        page.context.close()
        page = opened(open_page, other, script=LATE)
        wait(page, lambda: page.evaluate(DENSITY) < 0.51, "as many pixels as ever")
        seen = frames(page)
        wait(page, lambda: frames(page) > seen + 10, "no frames")
        assert page.evaluate(DENSITY) > 0.49
        page.context.close()


LOSE = """async () => {
  const canvas = document.getElementById("view"), card = canvas.getContext("webgl2").getExtension("WEBGL_lose_context");
  for (const [event, act] of [["webglcontextlost", () => card.loseContext()], ["webglcontextrestored", () => card.restoreContext()]]) {
    const done = new Promise((resolve) => canvas.addEventListener(event, () => setTimeout(resolve), { once: true }));
    act();
    await done;
  }
}"""  # noqa: E501
KINDS = ("WebGLBuffer", "WebGLVertexArrayObject", "WebGLProgram", "WebGLShader")


def test_a_card_that_was_lost_comes_back_and_nothing_of_it_is_left(page, stand):
    after = []
    for _ in range(3):
        page.evaluate(LOSE)
        seen = frames(page)
        wait(
            page, lambda seen=seen: frames(page) > seen + 3, "no frames"
        )  # some objects are made with the first that needs them
        wait(
            page,
            lambda: (np.ptp(canvas_pixels(page), axis=2) > 25).mean() > 0.02,
            "nothing is drawn any more",
        )
        after.append(held(page))
    assert after[2] == after[1]
    assert (
        page.evaluate("() => document.getElementById('view').getContext('webgl2').getError()") == 0
    )


def held(page) -> dict[str, int]:
    """How many things of the graphics card the page holds on to, after its rubbish was
    collected."""
    tools, count = page.context.new_cdp_session(page), {}
    for kind in KINDS:
        mould = tools.send("Runtime.evaluate", {"expression": f"{kind}.prototype"})["result"][
            "objectId"
        ]
        found = tools.send("Runtime.queryObjects", {"prototypeObjectId": mould})["objects"][
            "objectId"
        ]
        length = {"objectId": found, "functionDeclaration": "function () { return this.length; }"}
        count[kind] = tools.send("Runtime.callFunctionOn", length)["result"]["value"]
    tools.detach()
    return count


def test_a_recording_is_made_replayed_and_downloaded(page, stand):
    page.locator("#view").focus()
    page.keyboard.press("r")
    wait(page, lambda: "Recording" in page.locator("#recorded").inner_text(), "it does not record")
    page.keyboard.press("Shift+ArrowRight")
    wait(page, lambda: stand.session.recorder and len(stand.session.recorder.rows) > 20)
    page.locator("#record").click()
    wait(page, lambda: page.locator("#replay").is_enabled(), "the recording does not end")
    with page.expect_download() as download:
        page.locator("#csv").click()
    rows = list(csv.reader(Path(download.value.path()).read_text().splitlines()))
    assert download.value.suggested_filename == "commands.csv"
    assert len(rows) == stand.session.last_recording.n_steps + 1
    np.testing.assert_array_equal(
        np.array(rows[-1][1:], float), stand.session.last_recording.controls[-1]
    )
    with page.expect_download() as download:
        page.locator("#plan").click()
    assert json.loads(Path(download.value.path()).read_text())["method"] == "drive"
    page.locator("#replay").click()
    wait(page, lambda: status(page) == "manual", "the replay does not end")
    np.testing.assert_allclose(
        stand.session.state.u, stand.session.last_recording.controls[-1], atol=1e-9
    )


def test_a_second_browser_is_told_and_may_take_over(open_page, page, stand):
    first, second = page, open_page(stand.url)
    wait(second, lambda: second.locator("#veil-button").is_visible(), "nothing is said")
    assert "Another page drives this robot." in second.locator("#veil-text").inner_text()
    assert first.locator("#veil").is_hidden()
    second.locator("#veil-button").click()
    wait(second, lambda: frames(second) > 2, "it does not take over")
    wait(first, lambda: first.locator("#veil-button").is_visible(), "the first is not told")
    second.context.close()
    first.locator("#veil-button").click()  # and back
    wait(first, lambda: first.locator("#veil").is_hidden(), "it does not come back")


def test_a_reload_goes_on_and_a_robot_that_is_gone_is_told(open_page, arm):
    with served(arm) as other:
        page = opened(open_page, other, size=(400, 760))
        _check_telephone(page)
        k = other.session.state.k
        page.reload()
        wait(page, lambda: frames(page) > 2, "nothing after a reload")
        assert other.session.state.k > k
    wait(
        page,
        lambda: "Connection lost" in page.locator("#veil-title").inner_text(),
        "the lost connection is not reported",
    )
    page.context.close()


def _check_telephone(page):
    """A narrow window shows robot and panel, one above the other."""
    view, panel = (page.locator(name).bounding_box() for name in ("#view", "#panel"))
    assert view["width"] == panel["width"] == 400
    assert view["height"] > 300
    assert panel["y"] >= view["height"] - 1
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 400


def test_pictures_of_the_guide(open_page, tmp_path):
    """An arm that is pulled past a ball, and a pendulum whose water weighs on its walls: robot,
    obstacle and liquid are seen."""
    folder, fine = (
        Path(os.environ.get("PLIANT_PICTURES", tmp_path)),
        "PLIANT_PICTURES" in os.environ,
    )
    arm = replace(
        line_arm(layers=12, across=3 if fine else 2),
        contacts=[Contact(obstacle=sphere((0.085, -0.02, 0.12), 0.035))],
    )
    pixels = _picture(
        open_page, arm, np.array([4.0, 6.0, 10.0, 4.0]), {}, folder / "drive-arm.png", fine
    )
    stone = np.ptp(pixels, axis=2) < 22
    dark = pixels.max(axis=2) < 205
    assert (stone & dark).mean() > 0.01  # the ball is grey
    pendulum = hydraulic_pendulum(order=2 if fine else 1)
    held = np.array([0.0, 0.0, 9e3, 6e3])
    pixels = _picture(
        open_page,
        pendulum,
        held,
        {"type": "colour", "by": "weight"},
        folder / "drive-pendulum.png",
        fine,
    )
    warm = pixels[..., 0] - pixels[..., 2] > 30
    assert warm.mean() > 0.005  # where the liquid presses most, through the skin


def _picture(open_page, robot, held, message, path, fine):
    """(h, w, 3) the page after the robot was led to where controls would hold it; written to a
    file."""
    session = make_session(robot)
    name, there = session.active[0], equilibrium(Quasistatic(robot), held).x
    if message:
        session.handle_message(message)
    session.handle_message(
        {"type": "target", "effector": name, "at": robot.effector_position(name, there).tolist()}
    )
    for _ in range(40):
        session.step()
    with served(session) as stand:
        page = opened(open_page, stand, size=(1240, 760) if fine else (800, 500))
        wait(page, lambda: frames(page) > (12 if fine else 3), "no frames")
        shot = screenshot(page)
        Image.fromarray((shot // 4 * 4 + 3).astype(np.uint8)).save(
            path, optimize=True
        )  # without the noise of a gradient, which takes half of the file
        pixels = canvas_pixels(page, shot)
        page.context.close()
    return pixels
