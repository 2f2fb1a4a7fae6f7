import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { newJob } from "../../../src/core/jobs/lifecycle.ts";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { AUDIT_PAGES, auditPagesOf } from "../../../src/core/model/audit.ts";
import { BREAKERS, SAFETY_BREAKER } from "../../../src/core/model/breaker.ts";
import type { Job } from "../../../src/core/model/job.ts";
import { chainAll } from "../../../src/engine/audit/chain-audit.ts";
import type { Flow } from "../../../src/engine/engine.ts";
import { admit } from "../../../src/engine/intake/admit-job.ts";
import { policyRequestOf } from "../../../src/engine/safety/check-job.ts";
import { askKernel, refusal } from "../../../src/engine/safety/circuit-breaker.ts";
import { followSafety } from "../../../src/engine/safety/watch-safety.ts";
import { put } from "../../../src/ports/store.ts";
import { Plant } from "../harness.ts";

/** When requests arrived at the kernel, and while it felt how. */
function listen({ kernel, bench }: Plant): { readonly atMs: number; readonly health: string }[] {
  const asked: { atMs: number; health: string }[] = [];
  kernel.onRequest = () => asked.push({ atMs: bench.net.timeline.nowMs, health: kernel.health });
  return asked;
}

const breakerOf = (plant: Plant) => plant.bench.net.store.load(BREAKERS, SAFETY_BREAKER)?.value;

test("the breaker follows a store that went back: it does not stay open for ever", async () => {
  const plant = new Plant();
  const { flow } = await plant.control("c1", "remote");
  let worked = 0;
  await plant.worker("w1", ["demo.echo"], async () => worked++);
  plant.kernel.health = "refuses";
  for (let count = 0; count < 10; count++) await plant.run(admit(flow, anySubmission()));
  await plant.pass(60_000);
  expect(flow.safety.breaker.kind).not.toBe("closed");
  const { store } = plant.bench.net;
  const found = store.load(BREAKERS, SAFETY_BREAKER);
  const puts = [put(BREAKERS, SAFETY_BREAKER, found, null)];
  store.commit({ org: "*", atMs: 0, puts, guards: [], sends: [], watch: [] });
  plant.kernel.health = "up";
  await plant.pass(60_000);
  expect(flow.safety.breaker.kind).toBe("closed");
  expect(worked).toBe(10);
});

describe("the breaker is shared", () => {
  test("L27: timeouts of one process open it, and spare the others", async () => {
    const plant = new Plant();
    plant.kernel.health = "hangs";
    const [first, second] = [plant.flow("c1", "remote"), plant.flow("c2", "remote")];
    await plant.run(followSafety(second));
    await failOften(plant, first);
    expect(breakerOf(plant)).toMatchObject({ kind: "open", openings: 1, reason: "no answer within 1000 ms" });
    await plant.pass(100);
    const asked = listen(plant);
    const beganMs = plant.bench.net.timeline.nowMs;
    expect(await plant.run(askKernel(second, REQUEST))).toMatchObject({ kind: "unavailable" });
    expect(asked).toEqual([]);
    expect(plant.bench.net.timeline.nowMs).toBe(beganMs);
  });

  test("who was not told finds out at its first failure", async () => {
    const plant = new Plant();
    plant.kernel.health = "refuses";
    const [first, second] = [plant.flow("c1", "remote"), plant.flow("c2", "remote")];
    await failOften(plant, first);
    expect(refusal(second)).toBeNull();
    await plant.run(askKernel(second, REQUEST));
    expect(refusal(second)).toMatch(/breaker is open/);
  });

  test("L28: when its time is over, ten processes together send two probes", async () => {
    const plant = new Plant();
    plant.kernel.health = "hangs";
    const flows = Array.from({ length: 10 }, (_, index) => plant.flow(`c${index}`, "remote"));
    for (const flow of flows) await plant.run(followSafety(flow));
    await failOften(plant, flows[0] as Flow);
    await plant.pass(8_000);
    const asked = listen(plant);
    const checks = flows.flatMap((flow) => Array.from({ length: 20 }, () => askKernel(flow, REQUEST)));
    const answers = await plant.run(Promise.all(checks));
    expect(asked.length).toBe(2);
    expect(answers.every(({ kind }) => kind === "unavailable")).toBe(true);
    expect(breakerOf(plant)).toMatchObject({ kind: "open", openings: 2 });
  });

  test("one answer closes it for all; opening and closing stand in the audit log", async () => {
    const plant = new Plant();
    plant.kernel.health = "refuses";
    const [first, second] = [plant.flow("c1", "remote"), plant.flow("c2", "remote")];
    await plant.run(followSafety(second));
    await failOften(plant, first);
    await plant.pass(8_000);
    plant.kernel.health = "up";
    expect(await plant.run(askKernel(first, REQUEST))).toMatchObject({ kind: "decided" });
    await plant.pass(1_000);
    expect(breakerOf(plant)).toMatchObject({ kind: "closed" });
    expect([refusal(first), refusal(second), second.safety.breaker.kind]).toEqual([null, null, "closed"]);
    await plant.run(chainAll(first));
    const page = await plant.run(first.world.store.list(AUDIT_PAGES, { index: auditPagesOf("*"), limit: 10 }));
    const told = page.items.flatMap(({ value }) => value.entries.map(({ kind, what }) => `${kind} ${what}`));
    expect(told).toEqual(["breaker open", "breaker closed"]);
  });

  test("while it is closed a check does not touch the store", async () => {
    const plant = new Plant();
    const flow = plant.flow("c1", "remote");
    let calls = 0;
    const store = new Proxy(flow.world.store, {
      get: (target, key) => {
        calls++;
        return Reflect.get(target, key);
      },
    });
    for (let index = 0; index < 20; index++) {
      await plant.run(askKernel({ ...flow, world: { ...flow.world, store } }, REQUEST));
    }
    expect(calls).toBe(0);
  });

  test("L30: what is thrown is no failure, and gives the probe back", async () => {
    const plant = new Plant();
    plant.kernel.health = "refuses";
    const flow = plant.flow("c1", "remote");
    const check = () => Promise.reject(new Error("malformed"));
    const throwing = { ...flow, world: { ...flow.world, safety: { local: null, check } } };
    for (let index = 0; index < 20; index++) {
      await expect(plant.run(askKernel(throwing, REQUEST))).rejects.toThrow("malformed");
    }
    expect(breakerOf(plant)).toBeUndefined();
    await failOften(plant, flow);
    await plant.pass(8_000);
    await expect(plant.run(askKernel(throwing, REQUEST))).rejects.toThrow("malformed");
    await plant.pass(100);
    expect(breakerOf(plant)).toMatchObject({ kind: "half_open", probes: [] });
  });
});

/** As often as it takes to open it. */
async function failOften(plant: Plant, flow: Flow): Promise<void> {
  const { failures } = plant.settings.safety.breaker;
  for (let index = 0; index < failures; index++) await plant.run(askKernel(flow, REQUEST));
}

const REQUEST = policyRequestOf(anyJob());

function anySubmission() {
  const checked = checkSubmission({ topic: "demo.echo" });
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  return checked.submission;
}

function anyJob(): Job {
  const given = { nowMs: 0, settings: defaultSettings(), random: () => 0 };
  return newJob(anySubmission(), { jobId: "j", traceId: "t" }, { kind: "inline", value: null }, given);
}
