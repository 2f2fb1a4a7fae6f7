"""A worker that long-polls the gateway for jobs."""

from __future__ import annotations

import asyncio
import email.utils
import http.client
import inspect
import logging
import os
import re
import signal
import socket
import ssl
import threading
import time
import uuid
from datetime import datetime
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, TypeVar, Union
from urllib.parse import quote

from .client import Client, encode
from .errors import CordumError, JobCancelled, intent_of
from .retry import delay_s, full_jitter_s
from .transport import Lost, NotSent, Response, error_from

Handler = Callable[["LeasedJob"], Any]
H = TypeVar("H", bound=Handler)

LOG = logging.getLogger("cordum.worker")

WAIT_MS = 20_000
#: Limit of the gateway for one request.
LEASE_MAX = 100
#: A cancelled job is noticed within this time.
HEARTBEAT_S = 5.0
HEARTBEAT_S_MIN = 0.1
REQUEST_S = 10.0
RUNTIME_S_MAX = 3_600.0
RESEND_S = 300.0
RESEND_TRIES_MAX = 100
BACKOFF_BASE_S = 0.2
BACKOFF_MAX_S = 10.0
CLOCK_TOLERANCE_S = 2.0
ERROR_LENGTH_MAX = 4_000
ERROR_CODE_LENGTH_MAX = 256
MESSAGE_LENGTH_MAX = 1_000


class LeasedJob:
    """A job as a handler receives it."""

    def __init__(self, worker: "Worker", fields: Mapping[str, Any], ends_at: float) -> None:
        self.job_id: str = fields["job_id"]
        self.topic: str = fields["topic"]
        self.tenant: str = fields["tenant_id"]
        self.attempt: int = fields["attempt"]
        self.input: Any = fields.get("input")
        self.labels: Dict[str, str] = dict(fields.get("labels") or {})
        #: Constraints of the safety policy, or None.
        self.constraints: Optional[Dict[str, Any]] = fields.get("constraints")
        self.traceparent: Optional[str] = fields.get("traceparent")
        #: Everything the gateway sent, with `env`, `budget` and the other optional members.
        self.fields: Mapping[str, Any] = fields
        #: Set when the job was cancelled, or its lease was lost or has expired, or the worker stops without more patience.
        self.cancelled = threading.Event()
        self.cancel_reason: Optional[str] = None
        self._worker = worker
        self._lease_id: str = fields["lease_id"]
        self._ends_at = ends_at
        self._next_extension = 0.0
        self._runs_until = 0.0
        self._is_lost = False
        self._is_done = False
        self._usage: Dict[str, Union[int, float]] = {}

    def progress(self, percent: Optional[float] = None, message: Optional[str] = None) -> None:
        """Reports progress and extends the lease. Best effort: it never raises."""
        body: Dict[str, Any] = {}
        if percent is not None and percent == percent:
            body["percent"] = min(100, max(0, percent))
        if message is not None:
            body["message"] = message[:MESSAGE_LENGTH_MAX]
        self._worker._extend(self, "progress", body)

    def report_usage(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        total_tokens: int = 0,
        cost_usd: float = 0.0,
    ) -> None:
        """Adds to what the attempt used; sent with its end, also if it fails. Settles the budgets of the policy."""
        reported: Dict[str, Union[int, float]] = {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "total_tokens": total_tokens or input_tokens + output_tokens,
            "cost_usd": cost_usd,
        }
        for name, amount in reported.items():
            if amount > 0:
                self._usage[name] = self._usage.get(name, 0) + amount

    def raise_if_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise JobCancelled(self.cancel_reason or "cancelled")

    def _cancel(self, reason: str) -> None:
        if not self.cancelled.is_set():
            self.cancel_reason = reason
            self.cancelled.set()


class Worker:
    """Runs handlers for the jobs of its topics.

    1. At most ``concurrency`` handlers run, each in a thread; no more jobs than that are leased.
    2. The lease of a running job is extended until ``runtime_s_max``. A lost lease sets ``job.cancelled``.
    3. The result is sent again while the gateway is unavailable, for at most ``resend_s``. The gateway accepts it once.
    4. An error is retried by the control plane within its budget, unless the handler raises ``RetryAfter`` or ``Permanent``.
    5. After the first answer only ``stop`` ends the worker: an unavailable gateway is polled again with jitter.
    6. On stop, running jobs get ``grace_s`` to finish. Jobs that end because of ``job.cancelled`` then are released and use no
       attempt; the leases of handlers that do not end expire.
    """

    def __init__(
        self,
        client: Client,
        worker_id: Optional[str] = None,
        topics: Optional[Sequence[str]] = None,
        concurrency: int = 10,
        *,
        pool: Optional[str] = None,
        capabilities: Optional[Sequence[str]] = None,
        runtime_s_max: float = RUNTIME_S_MAX,
        resend_s: float = RESEND_S,
        heartbeat_s: float = HEARTBEAT_S,
        wait_ms: int = WAIT_MS,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}; use at least 1")
        self.client = client
        self.worker_id = worker_id or _own_name()
        self.concurrency = concurrency
        self._topics = None if topics is None else [_bare(topic) for topic in topics]
        self._pool = pool
        self._capabilities = None if capabilities is None else list(capabilities)
        self._runtime_s_max = runtime_s_max
        self._resend_s = resend_s
        self._heartbeat_s = max(HEARTBEAT_S_MIN, heartbeat_s)
        self._wait_ms = wait_ms
        self._handlers: Dict[str, Handler] = {}
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._running: Set[LeasedJob] = set()
        self._polling: Optional[http.client.HTTPConnection] = None
        self._threads: List[threading.Thread] = []
        self._heart = threading.Event()
        self._is_over = False
        self._failure: Optional[CordumError] = None

    def handler(self, topic: str) -> Callable[[H], H]:
        """Registers a handler. Its return value is the result; a coroutine function runs in an event loop of its own."""

        def register(function: H) -> H:
            self._handlers[_bare(topic)] = function
            return function

        return register

    def run(self, grace_s: float = 30.0) -> None:
        """Works until SIGTERM or SIGINT, then stops with `grace_s`. Raises if the gateway refuses the worker."""
        signals: List[int] = []

        def note(number: int, _frame: object) -> None:
            # Only a flag: a lock taken here could be held by the interrupted thread.
            signals.append(number)

        is_main = threading.current_thread() is threading.main_thread()
        before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)} if is_main else {}
        try:
            self.start()
            poller = self._threads[0]
            while poller.is_alive() and not signals:
                poller.join(0.2)
        finally:
            self.stop(grace_s)
            for number, previous in before.items():
                signal.signal(number, previous)
        if self._failure is not None:
            raise self._failure

    def start(self) -> None:
        """Starts to work in the background."""
        if self._threads:
            raise RuntimeError("the worker has been started before; create another one")
        topics = self._topics if self._topics is not None else list(self._handlers)
        missing = [topic for topic in topics if topic not in self._handlers]
        if missing or not topics:
            names = ", ".join(f"`{topic}`" for topic in missing) or "any topic"
            raise ValueError(f"no handler for {names}; register one with `@worker.handler(topic)`")
        self._threads = [
            threading.Thread(target=self._poll, args=(topics,), name=f"{self.worker_id}-poll", daemon=True),
            threading.Thread(target=self._extend_leases, name=f"{self.worker_id}-leases", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, grace_s: float = 30.0, cancel_s: float = 5.0) -> None:
        """Leases no more jobs and waits for running ones: `grace_s` to finish, then `cancel_s` after `job.cancelled`."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
            self._interrupt_poll()
        if self._threads:
            self._threads[0].join(REQUEST_S)
        if not self._wait_until_idle(grace_s):
            for job in self._snapshot():
                job._cancel("the worker stops")
            if not self._wait_until_idle(cancel_s):
                left = [job.job_id for job in self._snapshot()]
                LOG.warning("handlers still running; their leases expire: %s", ", ".join(left))
        self._is_over = True
        self._heart.set()
        self.client.close()

    # Polling

    def _poll(self, topics: Sequence[str]) -> None:
        failures = 0
        is_known = False
        while not self._stopping.is_set():
            free = self._wait_for_capacity()
            if self._stopping.is_set():
                return
            try:
                # The first request does not wait, so that a refused worker fails at once.
                jobs = self._lease(topics, free, self._wait_ms if is_known else 0)
                is_known = True
                failures = 0
            except CordumError as error:
                if not error.retryable and not is_known:
                    self._failure = error
                    return
                failures += 1
                LOG.warning("lease request failed: %s", error)
                self._stopping.wait(delay_s(failures, error.retry_after_ms, BACKOFF_BASE_S, BACKOFF_MAX_S))
                continue
            for job in jobs:
                if self._stopping.is_set():
                    self._release(job)
                else:
                    self._begin(job)

    def _lease(self, topics: Sequence[str], free: int, wait_ms: int) -> List[LeasedJob]:
        body: Dict[str, Any] = {
            "worker_id": self.worker_id,
            "topics": list(topics),
            "max": min(free, LEASE_MAX),
            "wait_ms": wait_ms,
        }
        if self._pool is not None:
            body["pool"] = self._pool
        if self._capabilities is not None:
            body["capabilities"] = self._capabilities
        until = time.monotonic() + wait_ms / 1_000 + REQUEST_S
        try:
            response = self.client.send(
                "POST", "/worker/lease", encode(body), until=until, on_connection=self._note_poll
            )
        except (NotSent, Lost) as cause:
            if self._stopping.is_set():
                return []
            raise CordumError("unreachable", detail=f"cannot reach {self.client.url} ({cause})", retryable=True)
        finally:
            with self._changed:
                self._polling = None
        if response.status == 204:
            return []
        if response.status != 200:
            raise error_from(response)
        try:
            leased = response.json()["jobs"]
            ahead_s = _server_ahead_s(response)
            return [LeasedJob(self, fields, _local_end(fields["deadline"], ahead_s)) for fields in leased]
        except (ValueError, KeyError, TypeError) as cause:
            detail = f"{self.client.url} sent no valid lease; check that CORDUM_URL is a Cordum gateway"
            raise CordumError("http_error", response.status, detail=detail, retryable=True) from cause

    def _note_poll(self, connection: http.client.HTTPConnection) -> None:
        with self._changed:
            self._polling = connection
            if self._stopping.is_set():
                self._interrupt_poll()

    def _interrupt_poll(self) -> None:
        """Half-closes the connection: the gateway ends the poll, and jobs that it has already sent are still read."""
        sock = None if self._polling is None else self._polling.sock
        if sock is None:
            return
        how = socket.SHUT_RDWR if isinstance(sock, ssl.SSLSocket) else socket.SHUT_WR
        try:
            sock.shutdown(how)
        except OSError:
            pass

    def _wait_for_capacity(self) -> int:
        with self._changed:
            while len(self._running) >= self.concurrency and not self._stopping.is_set():
                self._changed.wait()
            return self.concurrency - len(self._running)

    def _wait_until_idle(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, timeout_s)

    def _snapshot(self) -> List[LeasedJob]:
        with self._changed:
            return list(self._running)

    # Attempts

    def _begin(self, job: LeasedJob) -> None:
        now = time.monotonic()
        budgets = (job.constraints or {}).get("budgets") or {}
        runtime_ms = budgets.get("max_runtime_ms")
        limit_s = runtime_ms / 1_000 if isinstance(runtime_ms, (int, float)) and runtime_ms > 0 else self._runtime_s_max
        job._runs_until = now + min(limit_s, self._runtime_s_max)
        job._next_extension = now + self._interval_s(job, now)
        with self._changed:
            self._running.add(job)
        self._heart.set()
        threading.Thread(target=self._work, args=(job,), name=f"cordum-{job.job_id}", daemon=True).start()

    def _work(self, job: LeasedJob) -> None:
        started = time.monotonic()
        try:
            action, body = self._handle(job)
            if action is None:
                return
            body["execution_ms"] = int((time.monotonic() - started) * 1_000)
            if job._usage:
                body["usage"] = dict(job._usage)
            self._report(job, action, body)
        except Exception:
            LOG.exception("job %s: the result could not be sent", job.job_id)
        finally:
            job._is_done = True
            with self._changed:
                self._running.discard(job)
                self._changed.notify_all()

    def _handle(self, job: LeasedJob) -> "tuple[Optional[str], Dict[str, Any]]":
        try:
            result = self._handlers[_bare(job.topic)](job)
            if inspect.iscoroutine(result):
                result = asyncio.run(result)
        except BaseException as error:
            if job._is_lost:
                return None, {}
            if job.cancelled.is_set() and self._stopping.is_set():
                self._release(job)
                return None, {}
            return "fail", failure_of(error)
        if job._is_lost:
            return None, {}
        try:
            encode({"result": result})
        except (TypeError, ValueError, RecursionError) as error:
            return "fail", {"error": f"the result is not JSON: {error}"[:ERROR_LENGTH_MAX], "retryable": False}
        return "complete", {"result": result}

    def _report(self, job: LeasedJob, action: str, body: Dict[str, Any]) -> None:
        """Sends the end of the attempt until the gateway has answered."""
        until = time.monotonic() + self._resend_s
        for tries in range(1, RESEND_TRIES_MAX + 1):
            retry_after_ms: Optional[int] = None
            try:
                response = self._send(job, action, body)
                if response.status < 400:
                    return
                error = error_from(response)
                if error.status in (404, 409):
                    self._lose(job, error)
                    return
                if not error.retryable:
                    # Such as a result over the body limit: another attempt would end the same way.
                    if action == "complete":
                        detail = f"the result was refused: {error}"[:ERROR_LENGTH_MAX]
                        self._report(job, "fail", {"error": detail, "retryable": False})
                    else:
                        LOG.error("job %s: the failure was refused: %s", job.job_id, error)
                    return
                retry_after_ms = error.retry_after_ms
            except (NotSent, Lost) as cause:
                LOG.warning("job %s: the result was not sent, try %d: %s", job.job_id, tries, cause)
            wait_s = delay_s(tries, retry_after_ms, BACKOFF_BASE_S, BACKOFF_MAX_S)
            if time.monotonic() + wait_s >= until:
                break
            time.sleep(wait_s)
        LOG.error("job %s: the result was given up; the job is dispatched again when its lease expires", job.job_id)

    def _release(self, job: LeasedJob) -> None:
        """Returns a job that no handler works on: it uses no attempt. Best effort, as the lease expires anyway."""
        try:
            self._send(job, "release", {})
        except (NotSent, Lost) as cause:
            LOG.warning("job %s: the lease was not released: %s", job.job_id, cause)

    # Leases

    def _extend_leases(self) -> None:
        """One thread for all running jobs."""
        while not self._is_over:
            self._heart.clear()
            now = time.monotonic()
            next_at = now + self._heartbeat_s
            for job in self._snapshot():
                if job._is_done or job._is_lost:
                    continue
                if job._ends_at <= now:
                    # The gateway may have dispatched the job again; if it has not, the result is still accepted.
                    job._cancel("the lease has expired")
                if job._next_extension <= now and now < job._runs_until:
                    self._extend(job, "extend", {})
                    job._next_extension = time.monotonic() + self._interval_s(job, time.monotonic())
                next_at = min(next_at, max(job._next_extension, now + HEARTBEAT_S_MIN))
            self._heart.wait(max(0.01, next_at - time.monotonic()))

    def _interval_s(self, job: LeasedJob, now: float) -> float:
        """A third of the time left, so that two of three requests may fail."""
        left_s = max(HEARTBEAT_S_MIN, (job._ends_at - now) / 3)
        interval_s = min(left_s, self._heartbeat_s)
        return interval_s - full_jitter_s(1, interval_s / 20, interval_s / 10)

    def _extend(self, job: LeasedJob, action: str, body: Dict[str, Any]) -> None:
        if job._is_lost or job._is_done:
            return
        try:
            response = self._send(job, action, body)
            if response.status in (404, 409):
                self._lose(job, error_from(response))
            elif response.status < 400:
                deadline = response.json().get("deadline")
                if isinstance(deadline, str):
                    job._ends_at = _local_end(deadline, _server_ahead_s(response))
        except (NotSent, Lost, ValueError, AttributeError) as cause:
            LOG.warning("job %s: the lease was not extended: %s", job.job_id, cause)

    def _lose(self, job: LeasedJob, error: CordumError) -> None:
        if not job._is_done and not job._is_lost:
            LOG.info("job %s: %s", job.job_id, error.detail)
        job._is_lost = True
        job._cancel(error.detail)

    def _send(self, job: LeasedJob, action: str, body: Mapping[str, Any]) -> Response:
        path = f"/worker/jobs/{quote(job.job_id, safe='')}/{action}"
        content = encode({"lease_id": job._lease_id, **body})
        return self.client.send("POST", path, content, until=time.monotonic() + REQUEST_S)


def failure_of(error: BaseException) -> Dict[str, Any]:
    """The body of a failure report. An error without a retry intent is retried within its budget."""
    intent = intent_of(error)
    text = str(error) or type(error).__name__
    body: Dict[str, Any] = {
        "error": text[:ERROR_LENGTH_MAX],
        "error_code": type(error).__name__[:ERROR_CODE_LENGTH_MAX],
        "retryable": not intent.is_permanent,
    }
    if intent.delay_ms is not None:
        body["retry_after_ms"] = intent.delay_ms
    return body


def _server_ahead_s(response: Response) -> float:
    """Clock offset of the gateway; 0 if within the precision of the `date` header."""
    try:
        then = email.utils.parsedate_to_datetime(response.headers.get("date", ""))
        ahead_s = then.timestamp() - time.time()
    except (TypeError, ValueError, IndexError):
        return 0.0
    return ahead_s if abs(ahead_s) > CLOCK_TOLERANCE_S else 0.0


def _local_end(deadline: str, ahead_s: float) -> float:
    """An ISO 8601 time of the gateway as local monotonic time."""
    # Python before 3.11 does not parse the suffix `Z`.
    ends = datetime.fromisoformat(re.sub(r"Z$", "+00:00", deadline)).timestamp()
    return time.monotonic() + ends - ahead_s - time.time()


def _bare(topic: str) -> str:
    return topic[4:] if topic.startswith("job.") else topic


def _own_name() -> str:
    name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)[-128:]
