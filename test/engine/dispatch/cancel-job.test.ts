import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { IN_FLIGHT_GROUP, type OpenState } from "../../../src/core/model/job.ts";
import type { PolicyRequest } from "../../../src/core/policy/decision.ts";
import { retryAfter } from "../../../src/core/retry/intent.ts";
import { cancelOwnJob } from "../../../src/engine/dispatch/cancel-job.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import type { Packet } from "../../../src/protocol/packet.ts";
import { CANCEL, PROGRESS, RESULT } from "../../../src/protocol/subjects.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { Harness, idOf } from "../harness.ts";

const never = () => new Promise<never>(() => {});
const request = (jobId: string) => ({ org: "default", jobId, by: "alice", why: "not needed" });

function packet(body: Packet["body"]): Packet {
  return { traceId: "t", senderId: "w1", createdAtMs: 0, body };
}

/** Brings a job of `demo.one` into each open state. */
const REACH_STATE: Readonly<Record<OpenState, (harness: Harness, engine: Engine) => Promise<string>>> = {
  async PENDING(harness, engine) {
    harness.kernel.health = "refuses";
    return submit(harness, engine);
  },
  async APPROVAL_REQUIRED(harness, engine) {
    Object.assign(harness.kernel, {
      decide: (_: PolicyRequest) => ({ effect: "require_approval", ruleId: "r", reason: "look", snapshot: "s" }),
    });
    return submit(harness, engine);
  },
  SCHEDULED: (harness, engine) => submit(harness, engine),
  async DISPATCHED(harness, engine) {
    await harness.worker("w1", ["demo.one"], never);
    return submit(harness, engine);
  },
  async RUNNING(harness, engine) {
    await harness.worker("w1", ["demo.one"], never);
    const id = await submit(harness, engine);
    engine.world.bus.broadcast(PROGRESS, packet({ kind: "job_progress", jobId: id, percent: 10 }));
    await harness.pass(1_000);
    return id;
  },
  async RETRYING(harness, engine) {
    await harness.worker("w1", ["demo.one"], () => Promise.reject(retryAfter(new Error("later"), 600_000)));
    return submit(harness, engine);
  },
};

async function submit(harness: Harness, engine: Engine): Promise<string> {
  const id = idOf(await harness.admit(engine, { topic: "demo.one" }));
  await harness.pass(1_000);
  return id;
}

describe("cancel", () => {
  test.each(Object.keys(REACH_STATE) as OpenState[])("ends a job in state %s once, for good", async (state) => {
    const harness = new Harness();
    const { engine } = await harness.control("c1", "remote");
    const id = await REACH_STATE[state](harness, engine);
    expect((await harness.job(id)).state).toBe(state);
    expect(await harness.run(cancelOwnJob(engine, request(id)))).toEqual({ kind: "cancelled", state: "CANCELLED" });
    expect(await harness.run(cancelOwnJob(engine, request(id)))).toEqual({ kind: "ended", state: "CANCELLED" });

    harness.kernel.health = "up";
    const late = packet({ kind: "job_result", jobId: id, status: "succeeded", workerId: "w1", attempt: 1, output: 1 });
    await harness.run(engine.world.bus.publish({ id: "late", subject: RESULT, packet: late }));
    await harness.pass(1_000_000);
    const job = await harness.job(id);
    expect(job).toMatchObject({
      state: "CANCELLED",
      output: null,
      error: { name: "Cancelled", message: "not needed" },
    });
    expect(job.history.at(-1)).toMatchObject({ event: "cancelled", who: "alice" });
    expect(await auditLines(harness, engine, "cancel")).toEqual(["alice cancelled"]);
  });

  test("broadcasts to workers only for jobs that a worker may hold", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const cancels: string[] = [];
    await harness.run(
      engine.world.bus.subscribe(CANCEL, ({ body }) => {
        if (body.kind === "job_cancel") cancels.push(`${body.jobId} ${body.requestedBy} ${body.reason}`);
      }),
    );
    const waiting = await submit(harness, engine); // No worker serves it.
    await harness.run(cancelOwnJob(engine, request(waiting)));
    await harness.worker("w1", ["demo.one"], never);
    const working = await submit(harness, engine);
    await harness.run(cancelOwnJob(engine, request(working)));
    await harness.pass(100);
    expect(cancels.at(-1)).toBe(`${working} cordum/alice not needed`);
  });

  test("L39: a job timeout is also broadcast to its worker", async () => {
    const { dispatch, job } = defaultSettings();
    const harness = new Harness({ job: { ...job, deadlineMs: 30_000 }, dispatch: { ...dispatch, deadlineMs: 60_000 } });
    const { engine } = await harness.control("c1");
    const cancels: string[] = [];
    await harness.run(
      engine.world.bus.subscribe(CANCEL, ({ body }) => {
        if (body.kind === "job_cancel") cancels.push(body.jobId);
      }),
    );
    const waiting = await submit(harness, engine); // No worker serves it, so no cancel is broadcast.
    await harness.pass(40_000);
    await harness.worker("w1", ["demo.one"], never);
    const working = await submit(harness, engine);
    await harness.pass(40_000);
    expect((await harness.job(waiting)).state).toBe("TIMEOUT");
    expect((await harness.job(working)).state).toBe("TIMEOUT");
    expect(cancels).toEqual([working]);
  });

  test("frees the dispatch place for the next job of the topic", async () => {
    const harness = new Harness();
    Object.assign(harness.settings, { dispatch: { ...harness.settings.dispatch, windowMax: 1 } });
    const { engine, control } = await harness.control("c1");
    const started: string[] = [];
    await harness.worker("w1", ["demo.one"], (item) => {
      started.push(item.jobId);
      return never();
    });
    const [first, second] = [await submit(harness, engine), await submit(harness, engine)];
    expect(started).toEqual([first]);
    expect(control.duties().filter(({ late }) => late !== null)).toEqual([]);
    await harness.run(cancelOwnJob(engine, request(first)));
    await harness.pass(50); // Much shorter than the sweep interval.
    expect(started).toEqual([first, second]);
    expect((await harness.run(engine.world.store.counts(IN_FLIGHT_GROUP, 9))).get("demo.one")).toBe(1);
  });

  test("does not find another tenant's job", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const id = await submit(harness, engine);
    expect(await harness.run(cancelOwnJob(engine, { ...request(id), org: "evil" }))).toEqual({ kind: "not_found" });
    expect((await harness.job(id)).state).not.toBe("CANCELLED");
  });

  test("a racing result and the cancel end the job once, whichever is committed first", async () => {
    const ends = new Set<string>();
    // The result takes a few milliseconds to arrive, so some cancels come before and some after it.
    for (let trial = 0; trial <= 40; trial++) {
      const aheadMs = trial % 8;
      const harness = new Harness({}, trial + 1);
      const { engine } = await harness.control("c1");
      let finish = () => {};
      await harness.worker("w1", ["demo.one"], () => new Promise<void>((resolve) => (finish = resolve)));
      const id = await submit(harness, engine);
      finish();
      await harness.pass(aheadMs);
      const answer = await harness.run(cancelOwnJob(engine, request(id)));
      await harness.pass(5_000);
      const { state, history } = await harness.job(id);
      ends.add(state);
      const end = state === "CANCELLED" ? "cancelled" : "succeeded";
      expect(answer).toEqual(
        state === "CANCELLED" ? { kind: "cancelled", state } : { kind: "ended", state: "SUCCEEDED" },
      );
      expect(history.map(({ event }) => event)).toEqual([end]);
      expect(await auditLines(harness, engine, "cancel")).toEqual(end === "cancelled" ? ["alice cancelled"] : []);
    }
    expect([...ends].sort()).toEqual(["CANCELLED", "SUCCEEDED"]);
  });
});
