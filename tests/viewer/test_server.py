"""The server lets in one page that knows the token and comes from itself, and nothing that it says
can harm the robot."""

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
from served_robots import REACHABLE, a_frame, an_error, send, served, small_arm, unpacked, until
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from pliant.viewer.access import Access, check_address, page_files, write_redirect_file
from pliant.viewer.connections import ConnectionLimits
from pliant.viewer.loop import Loop
from pliant.viewer.recording import load_recording
from pliant.viewer.server import Server

UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def ask(stand, path="", *, method="GET", host=None, token=True, **headers):
    """(status, headers, body) of a plain request."""
    where = urlsplit(stand.url)
    line = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
    line.putrequest(
        method, where.path + path if token is True else f"/{token}/{path}", skip_host=True
    )
    for name, value in {"Host": stand.host if host is None else host, **headers}.items():
        if value:
            line.putheader(name, value)
    line.endheaders()
    answer = line.getresponse()
    out = answer.status, dict(answer.getheaders()), answer.read()
    line.close()
    return out


def test_the_page_and_its_files_are_served(stand):
    status, headers, body = ask(stand)
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    named = set(re.findall(rb'(?:src|href)="([^"]+)"', body))
    assert named
    for name in page_files():
        assert ask(stand, name)[0] == 200, name
    assert {name.decode() for name in named} <= set(page_files())
    assert ask(stand, "secret.txt")[0] == 404
    assert ask(stand, "../server.py")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("path", ["", "main.js", "socket"])
def test_a_page_can_only_be_got(stand, method, path):
    more = {**UPGRADE, "Origin": f"http://{stand.host}"} if path == "socket" else {}
    status, headers, _ = ask(stand, path, method=method, **more)
    assert (status, headers["Allow"]) == (405, "GET")
    assert ask(stand, path, method=method, token="wrong", **more)[0] == 403


def test_the_page_names_nothing_outside_itself():
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
def test_a_wrong_token_host_or_origin_gets_403(stand, path, change):
    change = {key: value.replace("{host}", stand.host) for key, value in change.items()}
    more = {**UPGRADE, "Origin": f"http://{stand.host}"} if path == "socket" else {}
    assert ask(stand, path, **{**more, **change})[0] == 403


def test_a_socket_without_an_origin_gets_403(stand):
    with pytest.raises(InvalidStatus) as caught:
        connect(stand.url.replace("http", "ws") + "socket")
    assert caught.value.response.status_code == 403


def test_localhost_is_a_name_of_this_machine(stand):
    port = urlsplit(stand.url).port
    assert ask(stand, host=f"localhost:{port}")[0] == 200
    assert ask(stand, host=f"localhost:{port}", Origin=f"http://localhost:{port}")[0] == 200
    assert ask(stand, host=f"localhost:{port + 1}")[0] == 403


class Sent(dict):
    def get_all(self, name):
        return [self[name]] if name in self else []


def test_a_door_to_everywhere_takes_numbers_and_no_names():
    door = Access(token="t", address="0.0.0.0", port=80)
    assert door.authorized_path("/t/", Sent(Host="192.168.1.7:80")) == ""
    assert (
        door.authorized_path("/t/", Sent(Host="robot.example:80")) is None
    )  # a name can be rebound to this address
    there = Access(token="t", address="192.168.1.7", port=80)
    assert there.authorized_path("/t/main.js?x=1", Sent(Host="192.168.1.7:80")) == "main.js"
    assert there.authorized_path("/t/", Sent(Host="127.0.0.1:80")) is None
    assert there.authorized_path("/t/", Sent(Host="192.168.1.7")) == ""  # a browser leaves 80 out
    assert (
        Access(token="t", address="MyHost", port=81).authorized_path("/t/", Sent(Host="myhost:81"))
        == ""
    )
    assert (
        Access(token="t", address="::1", port=81).authorized_path("/t/", Sent(Host="[::1]:81"))
        == ""
    )
    assert Access(token="t", address="::1", port=80).url == "http://[::1]:80/t/"


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.7", "::", "example.org"])
def test_another_address_needs_allow_remote(address, one_sentence):
    one_sentence(lambda: check_address(address, False), "--allow-remote")
    check_address(address, True)


def test_unavailable_port_or_address_raises(stand, arm, one_sentence):
    def serve_again(**more):
        with served(arm, **more):
            pass

    one_sentence(lambda: serve_again(port=urlsplit(stand.url).port), "another --port, or 0 for any")
    one_sentence(lambda: serve_again(address="203.0.113.7", allow_remote=True), "cannot be served")
    one_sentence(lambda: serve_again(port=99999), "cannot be served")
    one_sentence(lambda: serve_again(address="a..b", allow_remote=True), "cannot be served")


def test_the_browser_learns_the_address_from_a_file_of_its_owner_alone():
    post = write_redirect_file("http://127.0.0.1:1/key/")
    assert "http://127.0.0.1:1/key/" in post.read_text()
    assert post.parent.stat().st_mode & 0o077 == 0


def test_tokens_differ():
    arm = small_arm()
    with served(arm) as one, served(arm) as two:
        assert one.server.token != two.server.token
        assert len(one.server.token) >= 20


# The socket


def test_a_page_learns_the_scene_and_drives(stand):
    with stand.open() as page:
        scene = unpacked(page.recv(timeout=30))
        assert scene["type"] == "scene"
        assert [control["name"] for control in scene["controls"]] == [
            "front-left",
            "front-right",
            "back-right",
            "back-left",
        ]
        first = until(page, a_frame)
        assert len(first["arrays"]["points"]) == len(scene["arrays"]["rest"])
        target = (np.array(first["positions"]["laser"]) + REACHABLE).tolist()
        send(page, "target", effector="laser", at=target)
        there = until(
            page,
            lambda m: (
                a_frame(m) and m["text"] == "at the target" and m["targets"]["laser"] == target
            ),
        )
        np.testing.assert_allclose(there["positions"]["laser"], target, atol=2e-5)


def test_one_frame_is_under_way_at_a_time(stand):
    with stand.open() as page:
        until(page, a_frame, answer=False)
        before = stand.session.state.k
        with pytest.raises(TimeoutError):
            page.recv(timeout=0.5)
        assert stand.session.state.k > before + 3  # the robot does not wait for a slow page
        send(page, "seen")
        assert until(page, a_frame, answer=False)["k"] > before + 3  # and the next frame is of now


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
def test_what_a_page_should_not_say_is_answered_with_a_sentence(stand, text):
    with stand.open() as page:
        until(page, a_frame)
        page.send(text)
        assert re.fullmatch(r"[^\n]{10,400}[.?)]", until(page, an_error)["text"])
        assert np.all(np.isfinite(until(page, a_frame)["arrays"]["points"]))


def test_a_message_that_is_too_large_closes_the_socket_and_the_next_page_drives(stand):
    with stand.open() as page:
        until(page, a_frame)
        page.send("x" * 20_000)
        with pytest.raises(ConnectionClosed) as caught:
            until(page, an_error)
        assert caught.value.rcvd.code == 1009
    with stand.open() as page:
        until(page, a_frame)


def test_a_flood_does_not_grow_without_end(stand):
    with stand.open() as page:
        until(page, a_frame)
        for _ in range(5000):
            page.send('{"type": "colour", "by": "strain"}')
        until(page, a_frame)
        assert stand.server.loop._texts.qsize() <= 1000


def test_a_page_that_asks_and_does_not_read_fills_nothing(arm):
    """The next message is made only when the last one has left."""
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


def test_a_page_gets_its_first_frame_however_much_waits(arm):
    sent = []
    loop = Loop(session=arm, send=sent.append)
    for _ in range(1000):
        loop.receive('{"type": "colour", "by": "strain"}')
    loop.set_watched(True)
    loop.step()
    assert a_frame(unpacked(sent[0]))


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
    assert a_frame(unpacked(sent[0]))


def test_a_second_page_is_refused_in_words_and_may_take_over(stand):
    with stand.open() as first:
        until(first, a_frame)
        with stand.open() as second:
            with pytest.raises(ConnectionClosed) as caught:
                second.recv(timeout=30)
            assert caught.value.rcvd.code == 4001
            assert "Another page drives" in caught.value.rcvd.reason
        until(first, a_frame)
        with stand.open(take=True) as third:
            until(third, a_frame)
            with pytest.raises(ConnectionClosed) as caught:
                until(first, lambda message: False)
            assert caught.value.rcvd.code == 4002
            until(third, a_frame)


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


def test_without_a_page_the_robot_waits_and_goes_on_with_the_next(stand):
    with stand.open() as page:
        until(page, a_frame)
        page.socket.close()  # gone in the middle, without a word
    _wait(lambda: stand.server._page is None)
    time.sleep(0.2)
    k = stand.session.state.k
    time.sleep(0.3)
    assert stand.session.state.k == k
    with stand.open() as page:
        assert until(page, lambda m: a_frame(m) and m["k"] > k)["time"] < 60.0


def test_a_recording_is_downloaded(stand):
    assert ask(stand, "commands.csv")[0] == 404
    with stand.open() as page:
        until(page, a_frame)
        send(page, "record", on=True)
        until(page, lambda m: a_frame(m) and (m["recording"] or 0) > 5)
        send(page, "record", on=False)
        made = until(page, lambda m: a_frame(m) and m["recorded"] and m["recording"] is None)[
            "recorded"
        ]
        status, headers, body = ask(stand, "commands.csv")
        assert status == 200
        assert headers["Content-Disposition"] == 'attachment; filename="commands.csv"'
        assert len(body.decode().splitlines()) == made["steps"] + 1
        assert ask(stand, "plan.json")[1]["Content-Type"] == "application/json"


def test_a_hundred_pages_come_and_go_and_leave_nothing(stand):
    def visit():
        with stand.open() as page:
            until(page, a_frame)

    for _ in range(5):
        visit()
    before = _held(stand)
    for _ in range(100):
        visit()
    _wait(lambda: _held(stand) == before, why=lambda: (before, _held(stand)))


def _held(stand) -> tuple[int, int, int]:
    """(threads, open files, tasks of the server)."""
    gc.collect()
    stand.count_tasks()
    return threading.active_count(), len(os.listdir("/proc/self/fd")), stand.tasks.get(timeout=30)


def _wait(done, why=lambda: "", seconds=10.0):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, why()
        time.sleep(0.02)


def test_a_fault_of_the_simulation_ends_the_server_with_its_reason(arm, monkeypatch):
    monkeypatch.setattr(type(arm.controller), "follow", lambda self, pose, targets: 1 / 0)
    server = Server(loop=Loop(session=arm))

    async def run():
        await server.run(lambda url: server.loop.set_watched(True), asyncio.Event())

    with pytest.raises(ZeroDivisionError):
        asyncio.run(asyncio.wait_for(run(), 30))


def test_a_server_that_ends_saves_the_recording_under_way(arm, monkeypatch, tmp_path):
    monkeypatch.setattr(arm, "folder", tmp_path)
    server, stop = Server(loop=Loop(session=arm)), asyncio.Event()

    async def run():
        running = asyncio.create_task(server.run(lambda url: server.loop.set_watched(True), stop))
        server.loop.receive('{"type": "record", "on": true}')
        while arm.recorder is None or len(arm.recorder.rows) < 3:
            await asyncio.sleep(0.02)
        stop.set()
        await running

    asyncio.run(asyncio.wait_for(run(), 60))
    assert load_recording(tmp_path / "recording-001").n_steps >= 3
    assert arm.recorder is None


def test_too_many_connections_are_refused_and_idle_ones_are_closed(arm):
    limits = ConnectionLimits(count=4, request_time=0.5)
    with served(arm, limits=limits) as stand:
        where = urlsplit(stand.url)
        idle = [socket.create_connection((where.hostname, where.port)) for _ in range(12)]
        for line in idle:
            line.settimeout(30)
            with suppress(ConnectionResetError):
                assert line.recv(1) == b""  # refused at once, or closed after half a second
            line.close()
        assert ask(stand)[0] == 200


def test_missing_descriptors_are_reported_once_and_the_server_recovers(arm, monkeypatch, caplog):
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", 0.01)
    accept, refused = socket.socket.accept, []

    def exhausted(sock):
        if len(refused) < 20:
            refused.append(sock)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return accept(sock)

    with served(arm) as stand:
        monkeypatch.setattr(socket.socket, "accept", exhausted)
        assert ask(stand)[0] == 200
    assert len(refused) == 20
    assert caplog.text.count("cannot accept connections (Too many open files)") == 1
    assert "Traceback" not in caplog.text
    assert len(caplog.records) == 1
