"""Server-sent events of jobs and runs, with reconnection."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Type
from types import TracebackType

from .errors import CordumError
from .retry import delay_s
from .transport import Lost, NotSent, OpenStream, Transport

#: The gateway sends a comment every 15 seconds; three missing ones mean a dead connection.
SILENT_S_MAX = 45.0
LINE_BYTES_MAX = 1024 * 1024


class Event(NamedTuple):
    """`kind` is `job`, `run`, `rollout`, or `connected` after every connection, the first included, and after a loss.

    Events between two connections are lost: read the lists after `connected`.
    """

    kind: str
    data: Dict[str, Any]


class EventStream:
    """Iterates over events until `close`. A lost connection is opened again with jitter; a refused one raises."""

    def __init__(self, transport: Transport, path: str) -> None:
        self._transport = transport
        self._path = path
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._open: Optional[OpenStream] = None

    def __iter__(self) -> Iterator[Event]:
        failures = 0
        while not self._closed.is_set():
            retry_after_ms: Optional[int] = None
            try:
                stream = self._transport.open_stream(self._path, SILENT_S_MAX)
                if not self._keep(stream):
                    return
                failures = 0
                yield Event("connected", {})
                yield from events_of(stream.response)
            except CordumError as error:
                if not error.retryable:
                    raise
                retry_after_ms = error.retry_after_ms
            except (NotSent, Lost, OSError, http.client.HTTPException, ValueError, AttributeError):
                # A closed response raises any of these in the reading thread.
                pass
            finally:
                self._drop()
            failures += 1
            self._closed.wait(delay_s(failures, retry_after_ms))

    def close(self) -> None:
        """Ends the iteration, from any thread."""
        self._closed.set()
        self._drop()

    def __enter__(self) -> "EventStream":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def _keep(self, stream: OpenStream) -> bool:
        with self._lock:
            if not self._closed.is_set():
                self._open = stream
                return True
        stream.connection.close()
        return False

    def _drop(self) -> None:
        with self._lock:
            stream, self._open = self._open, None
        if stream is None:
            return
        sock = stream.connection.sock
        if sock is not None:
            try:
                # Wakes a thread that is blocked in a read; closing alone does not.
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        stream.connection.close()


def events_of(lines: http.client.HTTPResponse) -> Iterator[Event]:
    """Parses an event stream until its end."""
    kind = ""
    data: List[str] = []
    while True:
        line = lines.readline(LINE_BYTES_MAX + 1)
        if not line:
            return
        if len(line) > LINE_BYTES_MAX:
            raise ValueError(f"a line of the event stream exceeds {LINE_BYTES_MAX} bytes")
        text = line.decode("utf-8").rstrip("\r\n")
        if text == "":
            if kind == "reset" and "events_lost" in "".join(data):
                yield Event("connected", {})
            elif data and kind not in ("ready", "reset"):
                value = json.loads("\n".join(data))
                yield Event(kind or "message", value if isinstance(value, dict) else {"value": value})
            kind, data = "", []
            continue
        name, _, value_text = text.partition(":")
        value_text = value_text[1:] if value_text.startswith(" ") else value_text
        if name == "event":
            kind = value_text
        elif name == "data":
            data.append(value_text)
