"""The server accepts one page with the right token, host and origin. It rejects bad messages."""

import asyncio
import errno
import gc
import http.client
import os
import re
import socket
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np
import pytest
from served_robots import (
    REACHABLE,
    is_error,
    is_frame,
    receive_until,
    send,
    served,
    small_arm,
    unpacked,
)
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from pliant.viewer.access import Access, check_address, page_files, write_redirect_file
from pliant.viewer.connections import ConnectionLimits
from pliant.viewer.loop import CONTROL_PERIOD, MAX_DELAYED_STEPS, Loop
from pliant.viewer.recording import load_recording
from pliant.viewer.server import Server

UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def http_request(running, path="", *, method="GET", host=None, token=True, **headers):
    """Return the status, headers and body of an HTTP request."""
    where = urlsplit(running.url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
    connection.putrequest(
        method, where.path + path if token is True else f"/{token}/{path}", skip_host=True
    )
    for name, value in {"Host": running.host if host is None else host, **headers}.items():
        if value:
            connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    out = response.status, dict(response.getheaders()), response.read()
    connection.close()
    return out


def test_page_and_its_files_are_served(running):
    status, headers, body = http_request(running)
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    named = set(re.findall(rb'(?:src|href)="([^"]+)"', body))
    assert named
    for name in page_files():
        assert http_request(running, name)[0] == 200, name
    assert {name.decode() for name in named} <= set(page_files())
    assert http_request(running, "secret.txt")[0] == 404
    assert http_request(running, "../server.py")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("path", ["", "main.js", "socket"])
def test_page_accepts_only_get_requests(running, method, path):
    more = {**UPGRADE, "Origin": f"http://{running.host}"} if path == "socket" else {}
    status, headers, _ = http_request(running, path, method=method, **more)
    assert (status, headers["Allow"]) == (405, "GET")
    assert http_request(running, path, method=method, token="wrong", **more)[0] == 403


def test_page_has_no_external_links():
    for name, text in page_files().items():
        found = re.findall(
            rb"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}",
            text.replace(b"http://www.w3.org/2000/svg", b""),
        )
        assert found == [], name


@pytest.mark.parametrize("path", ["", "main.js", "socket", "plan.json"])
@pytest.mark.parametrize(
    "change",
    [
        {"token": "wrong"},
        {"token": ""},
        {"host": "evil.example"},
        {"host": ""},
        {"host": "127.0.0.1"},
        {"host": "localhost.evil:80"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://{host}"},
    ],
)
def test_wrong_token_host_or_origin_gets_403(running, path, change):
    change = {key: value.replace("{host}", running.host) for key, value in change.items()}
    more = {**UPGRADE, "Origin": f"http://{running.host}"} if path == "socket" else {}
    assert http_request(running, path, **{**more, **change})[0] == 403


def test_socket_without_an_origin_gets_403(running):
    with pytest.raises(InvalidStatus) as caught:
        connect(running.url.replace("http", "ws") + "socket")
    assert caught.value.response.status_code == 403


def test_localhost_is_an_allowed_host(running):
    port = urlsplit(running.url).port
    assert http_request(running, host=f"localhost:{port}")[0] == 200
    assert (
        http_request(running, host=f"localhost:{port}", Origin=f"http://localhost:{port}")[0] == 200
    )
    assert http_request(running, host=f"localhost:{port + 1}")[0] == 403


class RequestHeaders(dict):
    """Headers of a request, with one value for each name."""

    def get_all(self, name):
        return [self[name]] if name in self else []


def test_access_on_all_interfaces_requires_a_numeric_host():
    access = Access(token="t", address="0.0.0.0", port=80)
    assert access.authorized_path("/t/", RequestHeaders(Host="192.168.1.7:80")) == ""
    assert (
        access.authorized_path("/t/", RequestHeaders(Host="robot.example:80")) is None
    )  # DNS rebinding can give a name this address
    remote = Access(token="t", address="192.168.1.7", port=80)
    assert (
        remote.authorized_path("/t/main.js?x=1", RequestHeaders(Host="192.168.1.7:80")) == "main.js"
    )
    assert remote.authorized_path("/t/", RequestHeaders(Host="127.0.0.1:80")) is None
    assert (
        remote.authorized_path("/t/", RequestHeaders(Host="192.168.1.7")) == ""
    )  # browsers omit the default port 80
    assert (
        Access(token="t", address="MyHost", port=81).authorized_path(
            "/t/", RequestHeaders(Host="myhost:81")
        )
        == ""
    )
    assert (
        Access(token="t", address="::1", port=81).authorized_path(
            "/t/", RequestHeaders(Host="[::1]:81")
        )
        == ""
    )
    assert Access(token="t", address="::1", port=80).url == "http://[::1]:80/t/"


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.7", "::", "example.org"])
def test_another_address_needs_allow_remote(address, raises_clear_error):
    raises_clear_error(lambda: check_address(address, False), "--allow-remote")
    check_address(address, True)


def test_unavailable_port_or_address_raises(running, arm, raises_clear_error):
    def serve_again(**more):
        with served(arm, **more):
            pass

    raises_clear_error(
        lambda: serve_again(port=urlsplit(running.url).port), "another --port, or 0 for any"
    )
    raises_clear_error(
        lambda: serve_again(address="203.0.113.7", allow_remote=True), "cannot be served"
    )
    raises_clear_error(lambda: serve_again(port=99999), "cannot be served")
    raises_clear_error(lambda: serve_again(address="a..b", allow_remote=True), "cannot be served")


def test_redirect_file_is_readable_by_its_owner_only():
    file = write_redirect_file("http://127.0.0.1:1/key/")
    assert "http://127.0.0.1:1/key/" in file.read_text()
    assert file.parent.stat().st_mode & 0o077 == 0


def test_tokens_differ():
    arm = small_arm()
    with served(arm) as one, served(arm) as two:
        assert one.server.token != two.server.token
        assert len(one.server.token) >= 20


# The socket


def test_page_receives_the_scene_and_drives_the_robot(running):
    with running.open() as page:
        scene = unpacked(page.recv(timeout=30))
        assert scene["type"] == "scene"
        assert [control["name"] for control in scene["controls"]] == [
            "front-left",
            "front-right",
            "back-right",
            "back-left",
        ]
        first = receive_until(page, is_frame)
        assert len(first["arrays"]["points"]) == len(scene["arrays"]["rest"])
        target = (np.array(first["positions"]["laser"]) + REACHABLE).tolist()
        send(page, "target", effector="laser", at=target)
        reached = receive_until(
            page,
            lambda m: (
                is_frame(m) and m["text"] == "at the target" and m["targets"]["laser"] == target
            ),
        )
        np.testing.assert_allclose(reached["positions"]["laser"], target, atol=2e-5)


def test_next_frame_waits_for_acknowledgement(running):
    with running.open() as page:
        receive_until(page, is_frame, acknowledge=False)
        before = running.session.state.k
        with pytest.raises(TimeoutError):
            page.recv(timeout=0.5)
        assert running.session.state.k > before + 3  # a slow page does not delay the robot
        send(page, "seen")
        assert (
            receive_until(page, is_frame, acknowledge=False)["k"] > before + 3
        )  # the next frame shows the current state


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"type": "fly"}',
        '{"type": "target", "effector": "laser", "at": [NaN, 0, 0]}',
        '{"type": "target", "effector": "laser", "at": [1e400, 0, 0]}',
        '{"type": "target", "effector": "laser", "at": [9e9, 0, 0]}',
        '{"type": "controls", "values": "x"}',
        b"\x00\xff",
        "{" * 5000,
        '{"type": "active", "effectors": [[]]}',
    ],
)
def test_invalid_message_gets_an_error_of_one_line(running, text):
    with running.open() as page:
        receive_until(page, is_frame)
        page.send(text)
        assert re.fullmatch(r"[^\n]{10,400}[.?)]", receive_until(page, is_error)["text"])
        assert np.all(np.isfinite(receive_until(page, is_frame)["arrays"]["points"]))


def test_oversized_message_closes_the_socket_and_next_page_drives(running):
    with running.open() as page:
        receive_until(page, is_frame)
        page.send("x" * 20_000)
        with pytest.raises(ConnectionClosed) as caught:
            receive_until(page, is_error)
        assert caught.value.rcvd.code == 1009
    with running.open() as page:
        receive_until(page, is_frame)


def test_message_queue_is_bounded(running):
    with running.open() as page:
        receive_until(page, is_frame)
        for _ in range(5000):
            page.send('{"type": "colour", "by": "strain"}')
        receive_until(page, is_frame)
        assert running.server.loop._texts.qsize() <= 1000


def test_unread_messages_do_not_accumulate(arm):
    """The loop encodes a message only after the previous one was sent."""
    waiting = Future()
    sent = []
    loop = Loop(session=arm, send=lambda message: sent.append(message) or waiting)
    for _ in range(5):
        loop.receive('{"type": "seen"}')
        loop.receive("no JSON")
        loop.step()
    assert len(sent) == 1
    waiting.set_result(None)
    loop.step()
    assert len(sent) == 2


def test_page_gets_first_frame_despite_full_queue(arm):
    sent = []
    loop = Loop(session=arm, send=sent.append)
    for _ in range(1000):
        loop.receive('{"type": "colour", "by": "strain"}')
    loop.set_watched(True)
    loop.step()
    assert is_frame(unpacked(sent[0]))


def test_messages_of_last_page_are_dropped(arm):
    sent = []
    loop = Loop(session=arm, send=sent.append)
    loop.set_watched(True)
    loop.receive('{"type": "fly"}')
    loop._handle_messages()
    loop.receive('{"type": "pause", "on": true}')
    loop.set_watched(False)
    loop.set_watched(True)
    loop.step()
    assert not arm.command.paused
    assert is_frame(unpacked(sent[0]))


def test_second_page_is_rejected_and_can_take_over(running):
    with running.open() as first:
        receive_until(first, is_frame)
        with running.open() as second:
            with pytest.raises(ConnectionClosed) as caught:
                second.recv(timeout=30)
            assert caught.value.rcvd.code == 4001
            assert "Another page drives" in caught.value.rcvd.reason
        receive_until(first, is_frame)
        with running.open(take=True) as third:
            receive_until(third, is_frame)
            with pytest.raises(ConnectionClosed) as caught:
                receive_until(first, lambda message: False)
            assert caught.value.rcvd.code == 4002
            receive_until(third, is_frame)


def test_messages_of_replaced_page_are_dropped(arm):
    """Messages still arrive until the closing handshake of a socket ends."""
    received, late = [], asyncio.Event()

    class Page:
        def __init__(self, path, words):
            self.request, self.words = SimpleNamespace(path=path), words

        async def send(self, message):
            pass

        async def close(self, code, reason):
            late.set()

        async def __aiter__(self):
            await late.wait()
            yield self.words

    async def run():
        server = Server(loop=Loop(session=arm))
        server.loop.receive = received.append
        first = asyncio.create_task(server._drive(Page("/socket", "first")))
        await asyncio.sleep(0)
        await server._drive(Page("/socket?take", "second"))
        await first

    asyncio.run(run())
    assert received == ["second"]


def test_robot_stops_without_a_page_and_continues_with_the_next(running):
    with running.open() as page:
        receive_until(page, is_frame)
        page.socket.close()  # without a closing handshake
    _wait_until(lambda: running.server._page is None)
    time.sleep(0.2)
    k = running.session.state.k
    time.sleep(0.3)
    assert running.session.state.k == k
    with running.open() as page:
        assert receive_until(page, lambda m: is_frame(m) and m["k"] > k)["time"] < 60.0


def test_recording_is_downloaded(running):
    assert http_request(running, "commands.csv")[0] == 404
    with running.open() as page:
        receive_until(page, is_frame)
        send(page, "record", on=True)
        receive_until(page, lambda m: is_frame(m) and (m["recording"] or 0) > 5)
        send(page, "record", on=False)
        recording = receive_until(
            page, lambda m: is_frame(m) and m["recorded"] and m["recording"] is None
        )["recorded"]
        status, headers, body = http_request(running, "commands.csv")
        assert status == 200
        assert headers["Content-Disposition"] == 'attachment; filename="commands.csv"'
        assert len(body.decode().splitlines()) == recording["steps"] + 1
        assert http_request(running, "plan.json")[1]["Content-Type"] == "application/json"


class _SimulatedClock:
    """A clock and a stop event for a loop: waiting advances the time without sleeping."""

    def __init__(self):
        self.now, self.waits = 0.0, []

    def perf_counter(self):
        return self.now

    def wait(self, seconds):
        self.waits.append(seconds)
        self.now += seconds


def test_loop_sleeps_until_the_next_step_is_due_and_catches_up_a_few_delayed_steps(
    arm, monkeypatch
):
    clock, period = _SimulatedClock(), CONTROL_PERIOD
    monkeypatch.setattr("pliant.viewer.loop.time", clock)
    durations = iter([0.25, 0.5, 10.0, *[0.25] * 8])  # of the control steps, in periods

    def advance(session):
        clock.now += next(durations) * period

    loop = Loop(session=arm, before_step=advance)
    monkeypatch.setattr(loop, "_stopped", clock)
    monkeypatch.setattr(arm, "step", lambda: None)
    for _ in range(11):
        loop.step()
    # After the long step the loop is 9 periods late, of which it catches up MAX_DELAYED_STEPS = 4.
    # Each short step gains 0.75 periods, so that five steps follow without a pause.
    expected = np.array([0.75, 0.5, 0, 0, 0, 0, 0, 0, 0.5, 0.75, 0.75])
    assert MAX_DELAYED_STEPS == 4
    np.testing.assert_allclose(clock.waits, expected * period, atol=1e-12)
    np.testing.assert_allclose(sum(loop.step_intervals), clock.now)


def test_hundred_pages_leak_no_threads_files_or_tasks(running):
    def visit():
        with running.open() as page:
            receive_until(page, is_frame)

    for _ in range(5):
        visit()
    before = _count_resources(running)
    for _ in range(100):
        visit()
    # The first count may include tasks of pages that are still closing, so it is an upper bound.
    _wait_until(
        lambda: all(np.less_equal(_count_resources(running), before)),
        why=lambda: (before, _count_resources(running)),
    )


def _count_resources(running) -> tuple[int, int, int]:
    """Count the threads, the open files and the tasks of the server."""
    gc.collect()
    running.count_tasks()
    return threading.active_count(), len(os.listdir("/proc/self/fd")), running.tasks.get(timeout=30)


def _wait_until(done, why=lambda: "", seconds=10.0):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, why()
        time.sleep(0.02)


def test_error_in_the_simulation_stops_the_server(arm, monkeypatch):
    monkeypatch.setattr(type(arm.controller), "follow", lambda self, pose, targets: 1 / 0)
    server = Server(loop=Loop(session=arm))

    async def run():
        await server.run(lambda url: server.loop.set_watched(True), asyncio.Event())

    with pytest.raises(ZeroDivisionError):
        asyncio.run(asyncio.wait_for(run(), 30))


def test_stopped_server_saves_the_current_recording(arm, monkeypatch, tmp_path):
    monkeypatch.setattr(arm, "folder", tmp_path)
    server, stop = Server(loop=Loop(session=arm)), asyncio.Event()

    async def run():
        task = asyncio.create_task(server.run(lambda url: server.loop.set_watched(True), stop))
        server.loop.receive('{"type": "record", "on": true}')
        while arm.recorder is None or len(arm.recorder.rows) < 3:
            await asyncio.sleep(0.02)
        stop.set()
        await task

    asyncio.run(asyncio.wait_for(run(), 60))
    assert load_recording(tmp_path / "recording-001").n_steps >= 3
    assert arm.recorder is None


def test_excess_connections_are_rejected_and_idle_ones_are_closed(arm):
    limits = ConnectionLimits(count=4, request_time=0.5)
    with served(arm, limits=limits) as running:
        where = urlsplit(running.url)
        idle = [socket.create_connection((where.hostname, where.port)) for _ in range(12)]
        for line in idle:
            line.settimeout(30)
            with suppress(ConnectionResetError):
                assert line.recv(1) == b""  # refused at once, or closed after half a second
            line.close()
        assert http_request(running)[0] == 200


def test_missing_descriptors_are_reported_once_and_the_server_recovers(arm, monkeypatch, caplog):
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", 0.01)
    accept, refused = socket.socket.accept, []

    def exhausted(sock):
        if len(refused) < 20:
            refused.append(sock)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return accept(sock)

    with served(arm) as running:
        monkeypatch.setattr(socket.socket, "accept", exhausted)
        assert http_request(running)[0] == 200
    assert len(refused) == 20
    assert caplog.text.count("cannot accept connections (Too many open files)") == 1
    assert "Traceback" not in caplog.text
    assert len(caplog.records) == 1
