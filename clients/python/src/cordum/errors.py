"""Errors of the client, and the retry intent of handlers.

The intent is read by shape, never by class, so that it survives wrapping and a second copy of this package: a method
``retry_delay()`` or a number ``retry_delay_s`` requests a retry, ``retry_never = True`` forbids one. The chain is the
exception, its ``__cause__`` and the members of exception groups, breadth first; the outermost statement wins.
"""

from __future__ import annotations

import math
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Set

#: Bounds the cost of runaway chains.
CHAIN_MAX = 1_000
DELAY_MS_MAX = 86_400_000


class CordumError(Exception):
    """A request that failed. ``status`` is 0 when no response arrived; ``code`` is ``unreachable`` or ``timeout`` then."""

    def __init__(
        self,
        code: str,
        status: int = 0,
        title: str = "",
        detail: str = "",
        retryable: bool = False,
        retry_after_ms: Optional[int] = None,
        request_id: Optional[str] = None,
        fields: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self.code = code
        self.status = status
        self.title = title
        self.detail = detail
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms
        self.request_id = request_id
        #: All members of the problem document, for example `remediations` of a denied job.
        self.fields: Mapping[str, Any] = fields if fields is not None else {}
        super().__init__(": ".join(part for part in (code, title, detail) if part))


class JobCancelled(Exception):
    """Raised by ``LeasedJob.raise_if_cancelled``: the job was cancelled or its lease was lost."""


class RetryAfter(Exception):
    """Requests a retry of the job after ``delay_s`` seconds. A negative or undefined delay becomes 0."""

    def __init__(self, delay_s: float, error: object = None) -> None:
        super().__init__(_text_of(error, "retry requested"))
        self.retry_delay_s = _clamp(delay_s)
        if isinstance(error, BaseException):
            self.__cause__ = error

    def retry_delay(self) -> float:
        return self.retry_delay_s


class Permanent(Exception):
    """The job is not retried: it goes to the dead letters."""

    retry_never = True

    def __init__(self, error: object = None) -> None:
        super().__init__(_text_of(error, "permanent failure"))
        if isinstance(error, BaseException):
            self.__cause__ = error


def retry_after(error: object, delay_s: float) -> RetryAfter:
    return RetryAfter(delay_s, error)


def permanent(error: object) -> Permanent:
    return Permanent(error)


class Intent(NamedTuple):
    is_permanent: bool
    #: None: the control plane chooses the delay.
    delay_ms: Optional[int]


def intent_of(error: BaseException) -> Intent:
    """The outermost statement in the chain. An error without one is retried within its budget."""
    for node in chain_of(error):
        if _read(node, "retry_never") is True:
            return Intent(True, None)
        delay_s = _delay_of(node)
        if delay_s is not None:
            return Intent(False, min(DELAY_MS_MAX, math.ceil(delay_s * 1_000)))
    return Intent(False, None)


def chain_of(root: BaseException) -> Iterator[BaseException]:
    queue: List[BaseException] = [root]
    seen: Set[int] = {id(root)}
    # The queue grows during iteration.
    for node in queue:
        yield node
        members = _read(node, "exceptions")
        for child in (node.__cause__, *(members if isinstance(members, (list, tuple)) else ())):
            if isinstance(child, BaseException) and id(child) not in seen and len(seen) < CHAIN_MAX:
                seen.add(id(child))
                queue.append(child)


def _delay_of(node: BaseException) -> Optional[float]:
    method = _read(node, "retry_delay")
    delay: Any = None
    if callable(method):
        try:
            delay = method()
        except Exception:
            delay = None
    if not _is_number(delay):
        delay = _read(node, "retry_delay_s")
    return _clamp(delay) if _is_number(delay) else None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _clamp(delay_s: float) -> float:
    if math.isnan(delay_s) or delay_s < 0:
        return 0.0
    return min(float(delay_s), DELAY_MS_MAX / 1_000)


def _read(node: object, name: str) -> Any:
    try:
        return getattr(node, name, None)
    except Exception:
        return None


def _text_of(error: object, default: str) -> str:
    if error is None:
        return default
    text = str(error)
    return text if text else type(error).__name__
