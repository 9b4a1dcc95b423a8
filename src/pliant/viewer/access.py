"""Access control of the drive server, and the files of the page."""

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

PAGE_FOLDER = Path(__file__).parent / "page"
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".csv": "text/csv; charset=utf-8",
}
SOCKET_PATH = "socket"


@dataclass(frozen=True, kw_only=True)
class Access:
    """Access rule: a request needs the token, a Host of this server and no foreign Origin.

    The Origin check refuses pages of other sites. The Host check refuses DNS rebinding.
    """

    token: str
    address: str
    port: int

    @property
    def url(self) -> str:
        host = "127.0.0.1" if _is_unspecified(self.address) else self.address
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/{self.token}/"

    def authorized_path(self, path: str, headers: Any) -> str | None:
        """Return the path after the token, such as "main.js". None if access is denied."""
        hosts, origins = headers.get_all("Host"), headers.get_all("Origin")
        if len(hosts) != 1 or not self._is_own_host(hosts[0]):
            return None
        asked, _, rest = path.partition("?")[0].removeprefix("/").partition("/")
        if not compare_digest(asked.encode(errors="replace"), self.token.encode()):
            return None
        if origins and origins != [f"http://{hosts[0]}"]:
            return None
        if rest == SOCKET_PATH and not origins:  # a browser always sends an Origin
            return None
        return rest

    def _is_own_host(self, host: str) -> bool:
        name, _, port = (
            host.rpartition(":") if host.rstrip("0123456789").endswith(":") else (host, "", "80")
        )  # a browser omits port 80
        if port != str(self.port):
            return False
        name = name.removeprefix("[").removesuffix("]").lower()
        if _is_unspecified(self.address):  # an IP address cannot be rebound
            return name == "localhost" or _is_ip_address(name)
        return name == self.address.lower() or (
            is_loopback(self.address) and name in ("localhost", "127.0.0.1", "::1")
        )


def write_redirect_file(url: str) -> Path:
    """Write an HTML file that redirects to the page, and return its path.

    Other users can read the command line of a browser, and thus a URL there, but not this file. It
    is removed when the program ends.
    """
    folder = Path(tempfile.mkdtemp(prefix="pliant-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "drive.html"
    file.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={url}"><a href="{url}">Drive '
        "the robot</a>"
    )
    return file


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach an address."""
    return address == "localhost" or (_is_ip_address(address) and ip_address(address).is_loopback)


def check_address(address: str, allow_remote: bool) -> None:
    """Raise `InputError` if other machines can reach the address without `allow_remote`."""
    if not is_loopback(address) and not allow_remote:
        raise InputError(
            f"{address} can be reached from other machines, and anyone with the URL of the page "
            f"can drive the robot. Use --allow-remote {address} to permit this."
        )


def _is_unspecified(address: str) -> bool:
    return _is_ip_address(address) and ip_address(address).is_unspecified


def _is_ip_address(address: str) -> bool:
    try:
        ip_address(address)
    except ValueError:
        return False
    return True


def page_files() -> dict[str, bytes]:
    """Return the files of the page by name; "" is index.html."""
    files = {
        path.name: path.read_bytes()
        for path in sorted(PAGE_FOLDER.iterdir())
        if path.suffix in CONTENT_TYPES
    }
    return {**files, "": files["index.html"]}


def response_headers(name: str, host: str) -> Mapping[str, str]:
    """Return the HTTP headers of a file. They forbid the browser to load foreign content or to
    send the URL to others."""
    suffix = Path(name or "index.html").suffix
    headers = {
        "Content-Type": CONTENT_TYPES[suffix],
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
