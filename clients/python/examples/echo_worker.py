"""Serves the topics given as arguments and returns each input.

    python3 examples/echo_worker.py demo.echo
"""

import logging
import sys

from cordum import Client, LeasedJob, Worker

logging.basicConfig(level=logging.INFO)
worker = Worker(Client(), concurrency=4)


def echo(job: LeasedJob) -> object:
    return job.input


for topic in sys.argv[1:] or ["demo.echo"]:
    worker.handler(topic)(echo)

if __name__ == "__main__":
    worker.run()
