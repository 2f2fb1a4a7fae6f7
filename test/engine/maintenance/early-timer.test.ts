import { expect, test } from "vitest";
import { JOBS } from "../../../src/core/model/job.ts";
import { onDue } from "../../../src/engine/maintenance/due-timers.ts";
import { put } from "../../../src/ports/store.ts";
import { Harness, idOf } from "../harness.ts";

test("a timer that fires shortly before the deadline does not start an attempt that is due after it", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("c1");
  const id = idOf(await harness.admit(engine, { topic: "idle", jobId: "j" }));
  await harness.pass(100);
  const { store, clock } = engine.world;
  const found = (await harness.run(store.load(JOBS, id)))!;
  const deadlineMs = clock.now() + 50;
  const wait = { retryClass: "unclassified", reason: "lost", untilMs: deadlineMs + 5_000, setBy: "fixed:5s" } as const;
  const waiting = { ...found.value, state: "RETRYING", deadlineMs, dueMs: deadlineMs, wait } as const;
  await harness.run(engine.commit({ org: "default", puts: [put(JOBS, id, found, waiting)] }));
  const due = { table: JOBS.name, id, version: found.version + 1, dueMs: deadlineMs, value: waiting };
  await harness.run(onDue(engine, due));
  expect(await harness.job(id)).toMatchObject({ state: "RETRYING", attempt: found.value.attempt });
  await harness.pass(5_000);
  expect(await harness.job(id)).toMatchObject({ state: "TIMEOUT", attempt: found.value.attempt });
});
