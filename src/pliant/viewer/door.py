"""Door: who may come in, and the files of the page."""

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from secrets import compare_digest
from typing import Any

from pliant.core import InputError

HOME = Path(__file__).parent / "page"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".csv": "text/csv; charset=utf-8",
}
SOCKET = "socket"


@dataclass(frozen=True, kw_only=True)
class Door:
    """Lets in who asks for this address by its own name and knows the token. A page of another site
    knows neither: its Origin is that of the other site, and a name that was rebound to this address
    is not a Host of ours."""

    token: str
    address: str
    port: int

    @property
    def url(self) -> str:
        host = "127.0.0.1" if _anywhere(self.address) else self.address
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/{self.token}/"

    def path(self, path: str, headers: Any) -> str | None:
        """The path behind the token, such as "main.js", or None for who may not come in."""
        hosts, origins = headers.get_all("Host"), headers.get_all("Origin")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return None
        asked, _, rest = path.partition("?")[0].removeprefix("/").partition("/")
        if not compare_digest(asked.encode(errors="replace"), self.token.encode()):
            return None
        if origins and origins != [f"http://{hosts[0]}"]:
            return None
        if rest == SOCKET and not origins:  # a browser always says where its socket comes from
            return None
        return rest

    def _is_ours(self, host: str) -> bool:
        name, _, port = (
            host.rpartition(":") if host.rstrip("0123456789").endswith(":") else (host, "", "80")
        )  # a browser leaves 80 out
        if port != str(self.port):
            return False
        name = name.removeprefix("[").removesuffix("]").lower()
        if _anywhere(self.address):  # a number cannot be rebound as a name can
            return name == "localhost" or _is_number(name)
        return name == self.address.lower() or (
            is_loopback(self.address) and name in ("localhost", "127.0.0.1", "::1")
        )


def signpost(url: str) -> Path:
    """A file, readable by its owner alone and gone when the program ends, that leads a browser to
    the page: every user of the machine can see the command line of a browser."""
    folder = Path(tempfile.mkdtemp(prefix="pliant-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "drive.html"
    file.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={url}"><a href="{url}">Drive '
        "the robot</a>"
    )
    return file


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address."""
    return address == "localhost" or (_is_number(address) and ip_address(address).is_loopback)


def check_address(address: str, allow_remote: bool) -> None:
    """A sentence unless the page may be served there."""
    if not is_loopback(address) and not allow_remote:
        raise InputError(
            f"{address} can be reached from other machines, and whoever has the page's address "
            f"drives the robot; say --allow-remote {address} if that is wanted."
        )


def _anywhere(address: str) -> bool:
    return _is_number(address) and ip_address(address).is_unspecified


def _is_number(address: str) -> bool:
    try:
        ip_address(address)
    except ValueError:
        return False
    return True


def page_files() -> dict[str, bytes]:
    """The page's own files by name; "" is the page."""
    files = {
        path.name: path.read_bytes() for path in sorted(HOME.iterdir()) if path.suffix in KINDS
    }
    return {**files, "": files["index.html"]}


def headers_of(name: str, host: str) -> Mapping[str, str]:
    """What goes with a file: its kind, and that the browser shall load nothing from elsewhere and
    tell nobody the address."""
    suffix = Path(name or "index.html").suffix
    headers = {
        "Content-Type": KINDS[suffix],
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
        f"img-src 'self' data:; connect-src 'self' ws://{host}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    return (
        headers
        if suffix not in (".csv", ".json")
        else {**headers, "Content-Disposition": f'attachment; filename="{name}"'}
    )
