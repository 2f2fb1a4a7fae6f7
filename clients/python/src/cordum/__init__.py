"""Client and worker for the Cordum control plane, over HTTP. Standard library only."""

from .client import Client
from .errors import CordumError, JobCancelled, Permanent, RetryAfter, permanent, retry_after
from .stream import Event, EventStream
from .types import (
    Applied,
    Approval,
    DeadLetter,
    DeadLetterPage,
    ApprovalPage,
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
from .worker import LeasedJob, Worker

__version__ = "0.1.0"

__all__ = [
    "Applied",
    "Approval",
    "ApprovalPage",
    "Client",
    "CordumError",
    "DeadLetter",
    "DeadLetterPage",
    "Event",
    "EventStream",
    "Explanation",
    "Job",
    "JobCancelled",
    "JobChange",
    "JobPage",
    "LeasedJob",
    "Permanent",
    "RetryAfter",
    "Run",
    "RunChange",
    "RunExplanation",
    "RunPage",
    "StartedRun",
    "Status",
    "SubmittedJob",
    "Worker",
    "permanent",
    "retry_after",
]
