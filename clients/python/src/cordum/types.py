"""Response documents of the gateway. Only the members that programs read are named; others may follow in later versions."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict


class SubmittedJob(TypedDict, total=False):
    job_id: str
    trace_id: str
    state: str
    replayed: bool
    status: str
    reason: Optional[str]
    rule_id: Optional[str]
    expires_at: Optional[str]


class Wait(TypedDict, total=False):
    reason: Optional[str]
    until: Optional[str]
    retry_class: Optional[str]
    policy: Optional[str]


class Job(TypedDict, total=False):
    job_id: str
    topic: str
    tenant_id: str
    priority: str
    labels: Dict[str, str]
    state: str
    attempt: int
    waits_for: Optional[str]
    wait: Optional[Wait]
    safety: Optional[Dict[str, Any]]
    approval: Optional[Dict[str, Any]]
    progress: Optional[Dict[str, Any]]
    trace_id: str
    worker_id: Optional[str]
    created_at: str
    updated_at: str
    deadline_at: str
    error: Any
    input: Any
    result: Any
    history: List[Dict[str, Any]]


class JobPage(TypedDict):
    items: List[Job]
    next_cursor: Optional[str]


class JobChange(TypedDict):
    job_id: str
    state: str


class Explanation(TypedDict, total=False):
    job_id: str
    state: str
    wait: Optional[Wait]
    sentence: str
    unblocks: List[Dict[str, Any]]
    facts: Any


class Applied(TypedDict):
    workflow_id: str
    version: int
    created: bool


class StartedRun(TypedDict, total=False):
    run_id: str
    workflow_id: str
    version: int
    state: str
    replayed: bool


class Run(TypedDict, total=False):
    run_id: str
    workflow_id: str
    version: int
    state: str
    tenant_id: str
    created_at: str
    updated_at: str
    deadline: str
    labels: Dict[str, str]
    error: Any
    trace_id: str
    input: Any
    output: Any
    steps: Dict[str, Any]


class RunPage(TypedDict):
    items: List[Run]
    next_cursor: Optional[str]


class RunChange(TypedDict):
    run_id: str
    state: str


class RunExplanation(TypedDict):
    run_id: str
    state: str
    waits: List[Dict[str, Any]]


class Approval(TypedDict, total=False):
    job_id: str
    topic: str
    tenant_id: str
    reason: Optional[str]
    rule_id: Optional[str]
    expires_at: Optional[str]
    job_hash: str
    snapshot: str
    input: Any
    hidden: List[str]


class ApprovalPage(TypedDict):
    items: List[Approval]
    next_cursor: Optional[str]


class DeadLetter(TypedDict, total=False):
    id: str
    reason: str
    source: str
    tenant_id: str
    created_at: str
    error: Any
    job_id: str
    topic: str
    attempt: int
    history: List[Dict[str, Any]]
    input: Any


class DeadLetterPage(TypedDict):
    items: List[DeadLetter]
    next_cursor: Optional[str]


class Status(TypedDict, total=False):
    tenant: str
    ready: bool
    backlog: Dict[str, int]
    backlog_total: int
    in_flight_total: int
    approvals: int
    dead_letters: int
    runs: Dict[str, Any]
    workers: Dict[str, int]
    kill: List[Dict[str, Any]]
    safety: Dict[str, Any]
