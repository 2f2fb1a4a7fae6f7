"""The agent of the ticket triage. Uses clients/python:

    CORDUM_URL=http://127.0.0.1:8081 PYTHONPATH=clients/python/src python3 examples/ticket-triage/agent.py
"""

import time

from cordum import Client, LeasedJob, Worker

worker = Worker(Client(), concurrency=8)


@worker.handler("ticket.classify")
def classify(job: LeasedJob) -> object:
    call_model(job)
    return {"category": "refund" if "refund" in job.input["text"] else "question"}


@worker.handler("ticket.answer")
def answer(job: LeasedJob) -> object:
    call_model(job)
    return {"text": f"an answer from the help pages to: {job.input['question']}"}


def call_model(job: LeasedJob) -> None:
    """Stands for the call of a model."""
    print(job.topic, job.input["ticket"], flush=True)
    time.sleep(0.1)
    job.report_usage(input_tokens=200, output_tokens=50)


if __name__ == "__main__":
    worker.run()
