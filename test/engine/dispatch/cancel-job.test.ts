import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { IN_FLIGHT_GROUP, type OpenState } from "../../../src/core/model/job.ts";
import type { PolicyRequest } from "../../../src/core/policy/decision.ts";
import { retryAfter } from "../../../src/core/retry/intent.ts";
import { cancel } from "../../../src/engine/dispatch/cancel-job.ts";
import type { Flow } from "../../../src/engine/engine.ts";
import type { Packet } from "../../../src/protocol/packet.ts";
import { CANCEL, PROGRESS, RESULT } from "../../../src/protocol/subjects.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { idOf, Plant } from "../harness.ts";

const never = () => new Promise<never>(() => {});
const wish = (jobId: string) => ({ org: "default", jobId, by: "alice", why: "not needed" });

function packet(body: Packet["body"]): Packet {
  return { traceId: "t", senderId: "w1", createdAtMs: 0, body };
}

/** How a job of `demo.one` comes to be in each state. */
const INTO: Readonly<Record<OpenState, (plant: Plant, flow: Flow) => Promise<string>>> = {
  async PENDING(plant, flow) {
    plant.kernel.health = "refuses";
    return submit(plant, flow);
  },
  async APPROVAL_REQUIRED(plant, flow) {
    Object.assign(plant.kernel, {
      decide: (_: PolicyRequest) => ({ effect: "require_approval", ruleId: "r", reason: "look", snapshot: "s" }),
    });
    return submit(plant, flow);
  },
  SCHEDULED: (plant, flow) => submit(plant, flow),
  async DISPATCHED(plant, flow) {
    await plant.worker("w1", ["demo.one"], never);
    return submit(plant, flow);
  },
  async RUNNING(plant, flow) {
    await plant.worker("w1", ["demo.one"], never);
    const id = await submit(plant, flow);
    flow.world.bus.tell(PROGRESS, packet({ kind: "job_progress", jobId: id, percent: 10 }));
    await plant.pass(1_000);
    return id;
  },
  async RETRYING(plant, flow) {
    await plant.worker("w1", ["demo.one"], () => Promise.reject(retryAfter(new Error("later"), 600_000)));
    return submit(plant, flow);
  },
};

async function submit(plant: Plant, flow: Flow): Promise<string> {
  const id = idOf(await plant.admit(flow, { topic: "demo.one" }));
  await plant.pass(1_000);
  return id;
}

describe("cancel", () => {
  test.each(Object.keys(INTO) as OpenState[])("a job that is %s, once; nothing brings it back", async (state) => {
    const plant = new Plant();
    const { flow } = await plant.control("c1", "remote");
    const id = await INTO[state](plant, flow);
    expect((await plant.job(id)).state).toBe(state);
    expect(await plant.run(cancel(flow, wish(id)))).toEqual({ kind: "cancelled", state: "CANCELLED" });
    expect(await plant.run(cancel(flow, wish(id)))).toEqual({ kind: "ended", state: "CANCELLED" });

    plant.kernel.health = "up";
    const late = packet({ kind: "job_result", jobId: id, status: "succeeded", workerId: "w1", attempt: 1, output: 1 });
    await plant.run(flow.world.bus.publish({ id: "late", subject: RESULT, packet: late }));
    await plant.pass(1_000_000);
    const job = await plant.job(id);
    expect(job).toMatchObject({
      state: "CANCELLED",
      output: null,
      error: { name: "Cancelled", message: "not needed" },
    });
    expect(job.history.at(-1)).toMatchObject({ event: "cancelled", who: "alice" });
    expect(await auditLines(plant, flow, "cancel")).toEqual(["alice cancelled"]);
  });

  test("tells the workers, and only of jobs that one of them may have", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const heard: string[] = [];
    await plant.run(
      flow.world.bus.listen(CANCEL, ({ body }) => {
        if (body.kind === "job_cancel") heard.push(`${body.jobId} ${body.requestedBy} ${body.reason}`);
      }),
    );
    const waiting = await submit(plant, flow); // Nobody serves it.
    await plant.run(cancel(flow, wish(waiting)));
    await plant.worker("w1", ["demo.one"], never);
    const working = await submit(plant, flow);
    await plant.run(cancel(flow, wish(working)));
    await plant.pass(100);
    expect(heard.at(-1)).toBe(`${working} alice not needed`);
  });

  test("L39: is told to the workers of a job that runs out of time as well", async () => {
    const { dispatch, job } = defaultSettings();
    const plant = new Plant({ job: { ...job, deadlineMs: 30_000 }, dispatch: { ...dispatch, deadlineMs: 60_000 } });
    const { flow } = await plant.control("c1");
    const heard: string[] = [];
    await plant.run(
      flow.world.bus.listen(CANCEL, ({ body }) => {
        if (body.kind === "job_cancel") heard.push(body.jobId);
      }),
    );
    const waiting = await submit(plant, flow); // Nobody serves it: nobody has to be told.
    await plant.pass(40_000);
    await plant.worker("w1", ["demo.one"], never);
    const working = await submit(plant, flow);
    await plant.pass(40_000);
    expect((await plant.job(waiting)).state).toBe("TIMEOUT");
    expect((await plant.job(working)).state).toBe("TIMEOUT");
    expect(heard).toEqual([working]);
  });

  test("frees the place at once for the next job of the topic", async () => {
    const plant = new Plant();
    Object.assign(plant.settings, { dispatch: { ...plant.settings.dispatch, windowMax: 1 } });
    const { flow, control } = await plant.control("c1");
    const begun: string[] = [];
    await plant.worker("w1", ["demo.one"], (item) => {
      begun.push(item.jobId);
      return never();
    });
    const [first, second] = [await submit(plant, flow), await submit(plant, flow)];
    expect(begun).toEqual([first]);
    expect(control.sweptMs()).toBeGreaterThan(0);
    await plant.run(cancel(flow, wish(first)));
    await plant.pass(50); // Far less than a sweep.
    expect(begun).toEqual([first, second]);
    expect((await plant.run(flow.world.store.counts(IN_FLIGHT_GROUP, 9))).get("demo.one")).toBe(1);
  });

  test("another tenant's job is not there, and a result that races it counts once", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    let finish = () => {};
    await plant.worker("w1", ["demo.one"], () => new Promise<void>((resolve) => (finish = resolve)));
    const id = await submit(plant, flow);
    expect(await plant.run(cancel(flow, { ...wish(id), org: "evil" }))).toEqual({ kind: "not_found" });
    finish();
    const answer = await plant.run(cancel(flow, wish(id)));
    await plant.pass(5_000);
    const { state } = await plant.job(id);
    expect(answer).toEqual(
      state === "CANCELLED" ? { kind: "cancelled", state } : { kind: "ended", state: "SUCCEEDED" },
    );
  });
});
