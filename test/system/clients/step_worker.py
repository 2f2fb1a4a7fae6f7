"""Serves demo.echo and demo.slow of `examples/workflows/every-step.yaml`, and prints when the slow branch is cancelled."""

import threading

from cordum import Client, LeasedJob, Worker

worker = Worker(Client(), "python-worker", concurrency=4, heartbeat_s=0.2)
slow_started = threading.Event()


@worker.handler("demo.echo")
def echo(job: LeasedJob) -> object:
    # The fast quote ends after the slow one has started, so that there is a running job to cancel.
    if "price" in job.input and not slow_started.wait(60):
        raise TimeoutError("demo.slow has not started")
    return job.input


@worker.handler("demo.slow")
def slow(job: LeasedJob) -> None:
    slow_started.set()
    job.cancelled.wait(60)
    print("cancelled", job.job_id, flush=True)
    job.raise_if_cancelled()
    raise TimeoutError("the job was not cancelled")


worker.run()
