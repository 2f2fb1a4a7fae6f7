"""The client of the gateway."""

from __future__ import annotations

import http.client
import json
import ssl
import time
import uuid
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, cast
from urllib.parse import quote, urlencode

from .errors import CordumError
from .retry import delay_s, full_jitter_s
from .settings import find_api_key, find_tenant, find_url
from .stream import EventStream
from .transport import Lost, NotSent, Response, Transport, error_from
from .types import (
    Applied,
    Approval,
    ApprovalPage,
    DeadLetter,
    DeadLetterPage,
    Explanation,
    Job,
    JobChange,
    JobPage,
    Run,
    RunChange,
    RunExplanation,
    RunPage,
    StartedRun,
    Status,
    SubmittedJob,
)

TIMEOUT_S = 30.0
POLL_S_MIN = 0.05
POLL_S_MAX = 2.0
TRIES_MAX = 100
FINAL_STATES = frozenset(("SUCCEEDED", "FAILED", "DENIED", "CANCELLED", "TIMEOUT"))
#: After these errors nothing was changed, so that any request may be sent again.
UNCHANGED_CODES = frozenset(("lock_busy", "gate_unavailable"))


class Client:
    """Requests to the gateway. Thread-safe.

    1. A request is tried again while the gateway is unreachable, overloaded (429) or unavailable (503), until
       ``timeout_s`` has passed over all tries. ``Retry-After`` is a lower bound of the delay.
    2. Requests that create something carry an idempotency key, generated once per call and kept over all tries.
    3. Requests that are neither read-only nor idempotent are tried again only if nothing was changed.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        tenant: Optional[str] = None,
        *,
        timeout_s: float = TIMEOUT_S,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        address = find_url(url)
        headers = {"accept": "application/json", "user-agent": "cordum-python/0.1.0"}
        key = find_api_key(api_key, address)
        if key is not None:
            headers["x-api-key"] = key
        org = find_tenant(tenant)
        if org is not None:
            headers["x-tenant-id"] = org
        self.timeout_s = timeout_s
        self.transport = Transport(address, headers, ssl_context)

    @property
    def url(self) -> str:
        return self.transport.url

    def close(self) -> None:
        """Closes idle connections. The client stays usable."""
        self.transport.close()

    # Jobs

    def submit(
        self,
        topic: str,
        input: Any = None,
        *,
        idempotency_key: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        priority: Optional[str] = None,
        job_id: Optional[str] = None,
        risk_tags: Optional[Sequence[str]] = None,
        requires: Optional[Sequence[str]] = None,
        timeout_s: Optional[float] = None,
        **more: Any,
    ) -> SubmittedJob:
        """Submits a job. `more` are further members of the request body. A denial raises with code `denied`."""
        body = _given(
            topic=topic, input=input, labels=labels, priority=priority, job_id=job_id, risk_tags=risk_tags,
            requires=requires, **more,
        )
        headers = {"idempotency-key": idempotency_key or str(uuid.uuid4())}
        return cast(SubmittedJob, self.call("POST", "/jobs", body, headers=headers, timeout_s=timeout_s))

    def get_job(self, job_id: str) -> Job:
        return cast(Job, self.call("GET", f"/jobs/{_segment(job_id)}"))

    def list_jobs(
        self,
        *,
        state: Optional[str] = None,
        topic: Optional[str] = None,
        trace_id: Optional[str] = None,
        limit: Optional[int] = None,
        cursor: Optional[str] = None,
    ) -> JobPage:
        query = _given(state=state, topic=topic, trace_id=trace_id, limit=limit, cursor=cursor)
        return cast(JobPage, self.call("GET", "/jobs", query=query))

    def iter_jobs(self, *, state: Optional[str] = None, topic: Optional[str] = None) -> Iterator[Job]:
        """All jobs of the list, page by page."""
        cursor: Optional[str] = None
        while True:
            page = self.list_jobs(state=state, topic=topic, cursor=cursor)
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def wait_job(self, job_id: str, timeout_s: Optional[float] = None) -> Job:
        """Polls until the job has ended. After `timeout_s` it raises with code `timeout`; the job continues."""
        return cast(Job, self._wait(lambda: cast(Dict[str, Any], self.get_job(job_id)), f"job `{job_id}`", timeout_s))

    def cancel_job(self, job_id: str, reason: Optional[str] = None) -> JobChange:
        return cast(JobChange, self.call("POST", f"/jobs/{_segment(job_id)}/cancel", _given(reason=reason)))

    def explain_job(self, job_id: str) -> Explanation:
        """What the job waits for, until when, and what unblocks it."""
        return cast(Explanation, self.call("GET", f"/jobs/{_segment(job_id)}/explain"))

    # Workflows and runs

    def apply_workflow(self, definition: "str | Mapping[str, Any]", *, file: Optional[str] = None) -> Applied:
        """Applies a definition: YAML text or a mapping. `file` is shown in error messages."""
        body = _given(source=definition, file=file) if isinstance(definition, str) else dict(definition)
        return cast(Applied, self.call("POST", "/workflows", body))

    def start_run(
        self,
        workflow_id: str,
        input: Any = None,
        *,
        idempotency_key: Optional[str] = None,
        version: Optional[int] = None,
        labels: Optional[Mapping[str, str]] = None,
        priority: Optional[str] = None,
        timeout_s: Optional[float] = None,
    ) -> StartedRun:
        body = _given(input=input, version=version, labels=labels, priority=priority)
        headers = {"idempotency-key": idempotency_key or str(uuid.uuid4())}
        path = f"/workflows/{_segment(workflow_id)}/runs"
        return cast(StartedRun, self.call("POST", path, body, headers=headers, timeout_s=timeout_s))

    def get_run(self, run_id: str) -> Run:
        return cast(Run, self.call("GET", f"/workflow-runs/{_segment(run_id)}"))

    def list_runs(
        self, *, state: Optional[str] = None, limit: Optional[int] = None, cursor: Optional[str] = None
    ) -> RunPage:
        query = _given(state=state, limit=limit, cursor=cursor)
        return cast(RunPage, self.call("GET", "/workflow-runs", query=query))

    def wait_run(self, run_id: str, timeout_s: Optional[float] = None) -> Run:
        """Polls until the run has ended. After `timeout_s` it raises with code `timeout`; the run continues."""
        return cast(Run, self._wait(lambda: cast(Dict[str, Any], self.get_run(run_id)), f"run `{run_id}`", timeout_s))

    def cancel_run(self, run_id: str, reason: Optional[str] = None) -> RunChange:
        path = f"/workflow-runs/{_segment(run_id)}/cancel"
        return cast(RunChange, self.call("POST", path, _given(reason=reason)))

    def explain_run(self, run_id: str) -> RunExplanation:
        return cast(RunExplanation, self.call("GET", f"/workflow-runs/{_segment(run_id)}/explain"))

    # Approvals and dead letters

    def list_approvals(self, *, limit: Optional[int] = None, cursor: Optional[str] = None) -> ApprovalPage:
        return cast(ApprovalPage, self.call("GET", "/approvals", query=_given(limit=limit, cursor=cursor)))

    def approve(self, approval: "str | Approval", reason: Optional[str] = None) -> JobChange:
        """Approves a job by id or, better, by the approval that was reviewed: it is refused if the job has changed."""
        return self._decide(approval, "approve", reason)

    def reject(self, approval: "str | Approval", reason: str) -> JobChange:
        return self._decide(approval, "reject", reason)

    def list_dead_letters(self, *, limit: Optional[int] = None, cursor: Optional[str] = None) -> DeadLetterPage:
        return cast(DeadLetterPage, self.call("GET", "/dlq", query=_given(limit=limit, cursor=cursor)))

    def get_dead_letter(self, dead_letter_id: str) -> DeadLetter:
        return cast(DeadLetter, self.call("GET", f"/dlq/{_segment(dead_letter_id)}"))

    def retry_dead_letter(self, dead_letter_id: str) -> Dict[str, Any]:
        path = f"/dlq/{_segment(dead_letter_id)}/retry"
        return cast(Dict[str, Any], self.call("POST", path, {}, is_repeatable=False))

    def drop_dead_letter(self, dead_letter_id: str) -> Dict[str, Any]:
        path = f"/dlq/{_segment(dead_letter_id)}"
        return cast(Dict[str, Any], self.call("DELETE", path, is_repeatable=False))

    # State of the system

    def status(self) -> Status:
        return cast(Status, self.call("GET", "/status"))

    def stream(
        self, *, topic: Optional[str] = None, run: Optional[str] = None, state: Optional[str] = None
    ) -> EventStream:
        """Live events of jobs and runs. Use it in a `with` statement and iterate over it."""
        query = _given(topic=topic, run=run, state=state)
        return EventStream(self.transport, _path("/stream", query))

    # Requests

    def call(
        self,
        method: str,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        *,
        query: Optional[Mapping[str, Any]] = None,
        headers: Optional[Mapping[str, str]] = None,
        timeout_s: Optional[float] = None,
        is_repeatable: bool = True,
    ) -> Any:
        """Any request under `/api/v1`; returns the parsed response body. `is_repeatable`: two have the effect of one."""
        until = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        content = None if body is None else encode(body)
        tries = 0
        while True:
            tries += 1
            try:
                response = self.send(method, path, content, query=query, headers=headers, until=until)
            except (NotSent, Lost) as cause:
                error = CordumError(
                    "unreachable", detail=f"cannot reach {self.url} ({cause}); is `cordum up` running?", retryable=True
                )
                error.__cause__ = cause
                may_repeat = is_repeatable or isinstance(cause, NotSent)
            else:
                if response.status < 400:
                    return _document(response)
                error = error_from(response)
                is_unchanged = error.status == 429 or error.code in UNCHANGED_CODES
                may_repeat = error.retryable and (is_repeatable or is_unchanged)
            wait_s = delay_s(tries, error.retry_after_ms)
            if not may_repeat or tries >= TRIES_MAX or time.monotonic() + wait_s >= until:
                raise error
            time.sleep(wait_s)

    def send(
        self,
        method: str,
        path: str,
        content: Optional[bytes],
        *,
        query: Optional[Mapping[str, Any]] = None,
        headers: Optional[Mapping[str, str]] = None,
        until: float,
        on_connection: Optional[Callable[[http.client.HTTPConnection], None]] = None,
    ) -> Response:
        """One try of a request, without retries."""
        sent = dict(headers or {})
        if content is not None:
            sent["content-type"] = "application/json"
        return self.transport.send(method, _path(path, query), content, sent, until, on_connection)

    def _decide(self, approval: "str | Approval", answer: str, reason: Optional[str]) -> JobChange:
        body: Dict[str, Any] = _given(reason=reason)
        if isinstance(approval, str):
            job_id = approval
        else:
            job_id = approval["job_id"]
            if answer == "approve":
                body.update(_given(job_hash=approval.get("job_hash"), snapshot=approval.get("snapshot")))
        path = f"/approvals/{_segment(job_id)}/{answer}"
        return cast(JobChange, self.call("POST", path, body, is_repeatable=False))

    def _wait(self, read: Callable[[], Dict[str, Any]], name: str, timeout_s: Optional[float]) -> Dict[str, Any]:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        tries = 0
        while True:
            document = read()
            if document.get("state") in FINAL_STATES:
                return document
            tries += 1
            wait_s = POLL_S_MIN + full_jitter_s(tries, POLL_S_MIN, POLL_S_MAX)
            if until is not None and time.monotonic() + wait_s >= until:
                detail = f"{name} is still {document.get('state')} after {timeout_s} s; it continues"
                raise CordumError("timeout", detail=detail, retryable=True)
            time.sleep(wait_s)


def encode(body: Mapping[str, Any]) -> bytes:
    """JSON has no NaN: it raises instead of sending an invalid document."""
    return json.dumps(body, allow_nan=False, separators=(",", ":")).encode("utf-8")


def _document(response: Response) -> Any:
    try:
        return response.json()
    except ValueError as cause:
        detail = f"status {response.status} without a JSON body; check that CORDUM_URL is a Cordum gateway"
        raise CordumError("http_error", response.status, detail=detail) from cause


def _given(**fields: Any) -> Dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _segment(text: str) -> str:
    return quote(text, safe="")


def _path(path: str, query: Optional[Mapping[str, Any]]) -> str:
    search = urlencode({name: str(value) for name, value in (query or {}).items()})
    return f"/api/v1{path}?{search}" if search else f"/api/v1{path}"
