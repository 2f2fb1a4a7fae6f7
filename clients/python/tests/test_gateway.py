"""Client and worker against the gateway at `CORDUM_URL`; `test/system/clients/python.test.ts` starts one."""

import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import uuid
from typing import List

from cordum import Client, CordumError, LeasedJob, Permanent, RetryAfter, Worker

WAIT_S = 60.0


@unittest.skipUnless(os.environ.get("CORDUM_URL"), "CORDUM_URL names no gateway")
class GatewayTest(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client()
        self.topic = f"py.{uuid.uuid4().hex[:8]}"
        self.addCleanup(self.client.close)

    def serve(self, worker: Worker) -> None:
        worker.start()
        self.addCleanup(worker.stop, 1.0, 1.0)

    def worker(self) -> Worker:
        return Worker(self.client, concurrency=2, heartbeat_s=0.2)

    def test_returns_the_result_of_a_handler(self) -> None:
        worker = self.worker()
        worker.handler(self.topic)(lambda job: {"doubled": job.input["n"] * 2})
        self.serve(worker)
        job = self.client.wait_job(self.client.submit(self.topic, {"n": 21})["job_id"], WAIT_S)
        self.assertEqual((job["state"], job["result"]), ("SUCCEEDED", {"doubled": 42}))

    def test_replays_a_submission_with_the_same_key(self) -> None:
        key = uuid.uuid4().hex
        first = self.client.submit(self.topic, 1, idempotency_key=key)
        again = self.client.submit(self.topic, 1, idempotency_key=key)
        self.assertEqual((again["job_id"], again["replayed"]), (first["job_id"], True))
        with self.assertRaises(CordumError) as caught:
            self.client.submit(self.topic, 2, idempotency_key=key)
        self.assertEqual((caught.exception.status, caught.exception.code), (422, "idempotency_conflict"))
        self.assertIsNotNone(caught.exception.request_id)

    def test_shows_the_delay_that_the_worker_requested(self) -> None:
        worker = self.worker()

        @worker.handler(self.topic)
        def fail(_job: LeasedJob) -> None:
            try:
                raise RetryAfter(3_600, "rate limited")
            except RetryAfter as error:
                raise ValueError("wrapped") from error

        self.serve(worker)
        job_id = self.client.submit(self.topic)["job_id"]
        until = time.monotonic() + WAIT_S
        while self.client.get_job(job_id)["state"] != "RETRYING" and time.monotonic() < until:
            time.sleep(0.05)
        wait = self.client.explain_job(job_id)["wait"]
        assert wait is not None
        self.assertEqual(wait["policy"], "worker")
        self.client.cancel_job(job_id)

    def test_sends_a_permanent_failure_to_the_dead_letters(self) -> None:
        worker = self.worker()

        @worker.handler(self.topic)
        def fail(_job: LeasedJob) -> None:
            raise Permanent("unknown address")

        self.serve(worker)
        job_id = self.client.submit(self.topic)["job_id"]
        self.assertEqual(self.client.wait_job(job_id, WAIT_S)["state"], "FAILED")
        self.assertIn(job_id, [one.get("job_id") for one in self.client.list_dead_letters()["items"]])

    def test_signals_a_cancelled_job_to_its_handler(self) -> None:
        worker = self.worker()
        started, ended = threading.Event(), threading.Event()

        @worker.handler(self.topic)
        def wait(job: LeasedJob) -> None:
            started.set()
            if job.cancelled.wait(WAIT_S):
                ended.set()
            job.raise_if_cancelled()

        self.serve(worker)
        job_id = self.client.submit(self.topic)["job_id"]
        self.assertTrue(started.wait(WAIT_S))
        self.client.cancel_job(job_id, "not needed")
        self.assertTrue(ended.wait(WAIT_S))
        self.assertEqual(self.client.get_job(job_id)["state"], "CANCELLED")

    def test_releases_the_lease_of_a_handler_that_stops(self) -> None:
        worker = self.worker()
        started = threading.Event()

        @worker.handler(self.topic)
        def wait(job: LeasedJob) -> None:
            started.set()
            job.cancelled.wait(WAIT_S)
            job.raise_if_cancelled()

        worker.start()
        job_id = self.client.submit(self.topic)["job_id"]
        self.assertTrue(started.wait(WAIT_S))
        worker.stop(grace_s=0, cancel_s=WAIT_S)
        job = self.client.get_job(job_id)
        self.assertEqual((job["state"], job["attempt"]), ("SCHEDULED", 0))

    def test_redispatches_the_job_of_a_killed_worker(self) -> None:
        code = (
            "import sys, time; from cordum import Client, Worker\n"
            "w = Worker(Client())\n"
            "@w.handler(sys.argv[1])\n"
            "def hang(job):\n    print('started', flush=True); time.sleep(600)\n"
            "w.run()"
        )
        with subprocess.Popen([sys.executable, "-c", code, self.topic], stdout=subprocess.PIPE) as child:
            job_id = self.client.submit(self.topic, "again")["job_id"]
            assert child.stdout is not None
            self.assertEqual(child.stdout.readline().strip(), b"started")
            child.send_signal(signal.SIGKILL)
        worker = self.worker()
        worker.handler(self.topic)(lambda job: job.attempt)
        self.serve(worker)
        job = self.client.wait_job(job_id, WAIT_S)
        self.assertEqual((job["state"], job["result"]), ("SUCCEEDED", 2))

    def test_streams_events(self) -> None:
        states: List[str] = []
        with self.client.stream(topic=self.topic) as stream:
            for event in stream:
                if event.kind == "connected":
                    job_id = self.client.submit(self.topic)["job_id"]
                    self.client.cancel_job(job_id)
                elif event.kind == "job":
                    states.append(event.data["state"])
                    if event.data["state"] == "CANCELLED":
                        break
        self.assertEqual(states[-1], "CANCELLED")


if __name__ == "__main__":
    unittest.main()
