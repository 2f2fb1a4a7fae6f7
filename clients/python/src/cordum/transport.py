"""HTTP connections to the gateway: one try of one request. Redirects are not followed."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional
from urllib.parse import urlsplit

from .errors import CordumError

#: Idle connections kept for later requests.
IDLE_MAX = 16
#: Shorter than the keep-alive timeout of the gateway, so that a request rarely meets a connection that is being closed.
IDLE_S_MAX = 3.0
BODY_BYTES_MAX = 32 * 1024 * 1024
CHUNK_BYTES = 64 * 1024
CONNECT_S_MAX = 10.0


class Response(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


class NotSent(Exception):
    """The connection failed before the request was sent: nothing happened."""


class Lost(Exception):
    """The connection failed after the request was sent: the outcome is unknown."""


class Transport:
    """Thread-safe. Connections are kept alive and shared by all threads."""

    def __init__(self, url: str, headers: Mapping[str, str], context: Optional[ssl.SSLContext] = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"`{url}` is not an http or https URL; use for example http://127.0.0.1:8081")
        self.url = url.rstrip("/")
        self._host = parts.hostname
        self._port = parts.port
        self._prefix = parts.path.rstrip("/")
        self._context = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self._headers = dict(headers)
        self._lock = threading.Lock()
        self._idle: List[_Idle] = []

    def connect(self, timeout_s: float) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection
        if self._context is not None:
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=min(timeout_s, CONNECT_S_MAX), context=self._context
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=min(timeout_s, CONNECT_S_MAX))
        try:
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            connection.close()
            raise NotSent(str(error) or type(error).__name__) from error
        return connection

    def send(
        self,
        method: str,
        path: str,
        body: Optional[bytes],
        headers: Mapping[str, str],
        until: float,
        on_connection: Optional[Callable[[http.client.HTTPConnection], None]] = None,
    ) -> Response:
        """One try. `until` is a monotonic time."""
        timeout_s = _left_s(until)
        connection = self._take() or self.connect(timeout_s)
        is_reusable = False
        try:
            connection.sock.settimeout(timeout_s)
            if on_connection is not None:
                on_connection(connection)
            connection.request(method, self._prefix + path, body, {**self._headers, **headers})
            answer = connection.getresponse()
            content = _read(answer, connection, until)
            is_reusable = not answer.will_close
            return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, content)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Lost(str(error) or type(error).__name__) from error
        finally:
            if is_reusable:
                self._give(connection)
            else:
                connection.close()

    def open_stream(self, path: str, timeout_s: float) -> "OpenStream":
        """A response whose body is read by the caller, on a connection of its own."""
        connection = self.connect(timeout_s)
        try:
            connection.sock.settimeout(timeout_s)
            connection.request("GET", self._prefix + path, None, {**self._headers, "accept": "text/event-stream"})
            answer = connection.getresponse()
            if answer.status == 200:
                return OpenStream(connection, answer)
            content = _read(answer, connection, time.monotonic() + timeout_s)
            headers = {name.lower(): value for name, value in answer.getheaders()}
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            raise Lost(str(error) or type(error).__name__) from error
        connection.close()
        raise error_from(Response(answer.status, headers, content))

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle:
            one.connection.close()

    def _take(self) -> Optional[http.client.HTTPConnection]:
        stale: List[_Idle] = []
        found: Optional[http.client.HTTPConnection] = None
        with self._lock:
            while self._idle and found is None:
                last = self._idle.pop()
                if time.monotonic() - last.since > IDLE_S_MAX:
                    stale.append(last)
                else:
                    found = last.connection
        for one in stale:
            one.connection.close()
        return found

    def _give(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < IDLE_MAX:
                self._idle.append(_Idle(connection, time.monotonic()))
                return
        connection.close()


class OpenStream(NamedTuple):
    connection: http.client.HTTPConnection
    response: http.client.HTTPResponse


class _Idle(NamedTuple):
    connection: http.client.HTTPConnection
    since: float


def _left_s(until: float) -> float:
    # A timeout of 0 means "non-blocking" to a socket.
    return max(0.001, until - time.monotonic())


def _read(answer: http.client.HTTPResponse, connection: http.client.HTTPConnection, until: float) -> bytes:
    chunks: List[bytes] = []
    size = 0
    while True:
        if connection.sock is not None:
            connection.sock.settimeout(_left_s(until))
        chunk = answer.read(CHUNK_BYTES)
        if not chunk:
            # `read` with a size reports a truncated body as its end.
            if answer.length:
                raise http.client.IncompleteRead(b"", answer.length)
            return b"".join(chunks)
        chunks.append(chunk)
        size += len(chunk)
        if size > BODY_BYTES_MAX:
            raise http.client.HTTPException(f"the response exceeds {BODY_BYTES_MAX} bytes")


def error_from(response: Response) -> CordumError:
    fields: Dict[str, Any] = {}
    try:
        document = response.json()
        if isinstance(document, dict):
            fields = document
    except ValueError:
        pass
    after = fields.get("retry_after_ms")
    header = response.headers.get("retry-after", "")
    if not isinstance(after, (int, float)) and header.isdigit():
        # The body has milliseconds, the header whole seconds.
        after = int(header) * 1_000
    is_temporary = response.status in (408, 429, 502, 503, 504)
    retryable = fields.get("retryable")
    return CordumError(
        code=str(fields.get("code", "http_error")),
        status=response.status,
        title=str(fields.get("title", "")),
        detail=str(fields.get("detail", f"the gateway responded with status {response.status}")),
        retryable=retryable if isinstance(retryable, bool) else is_temporary,
        retry_after_ms=int(after) if isinstance(after, (int, float)) else None,
        request_id=response.headers.get("x-request-id"),
        fields=fields,
    )
