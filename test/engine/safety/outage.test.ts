import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { newJob } from "../../../src/core/jobs/lifecycle.ts";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { AUDIT_PAGES } from "../../../src/core/model/audit.ts";
import { BREAKERS, SAFETY_BREAKER } from "../../../src/core/model/breaker.ts";
import type { Job } from "../../../src/core/model/job.ts";
import { auditPagesOf } from "../../../src/core/model/lists/audit-lists.ts";
import { chainAll } from "../../../src/engine/audit/chain-audit.ts";
import { composeEngine, type Engine } from "../../../src/engine/engine.ts";
import { admitJob } from "../../../src/engine/intake/admit-job.ts";
import { policyRequestOf } from "../../../src/engine/safety/check-job.ts";
import { askKernel, breakerRefusal } from "../../../src/engine/safety/circuit-breaker.ts";
import { watchSafety } from "../../../src/engine/safety/watch-safety.ts";
import { put } from "../../../src/ports/store.ts";
import { Harness } from "../harness.ts";

/** Records the time of every kernel request and the kernel's health at that time. */
function recordRequests({ kernel, sim: bench }: Harness): { readonly atMs: number; readonly health: string }[] {
  const requests: { atMs: number; health: string }[] = [];
  kernel.onRequest = () => requests.push({ atMs: bench.net.timeline.nowMs, health: kernel.health });
  return requests;
}

const breakerOf = (harness: Harness) => harness.sim.net.store.load(BREAKERS, SAFETY_BREAKER)?.value;

test("the breaker closes after its record was lost", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("c1", "remote");
  let handled = 0;
  await harness.worker("w1", ["demo.echo"], async () => handled++);
  harness.kernel.health = "refuses";
  for (let count = 0; count < 10; count++) await harness.run(admitJob(engine, anySubmission()));
  await harness.pass(60_000);
  expect(engine.safety.breaker.kind).not.toBe("closed");
  const { store } = harness.sim.net;
  const found = store.load(BREAKERS, SAFETY_BREAKER);
  const puts = [put(BREAKERS, SAFETY_BREAKER, found, null)];
  store.commit({ org: "*", atMs: 0, puts, guards: [], sends: [], watch: [] });
  harness.kernel.health = "up";
  await harness.pass(60_000);
  expect(engine.safety.breaker.kind).toBe("closed");
  expect(handled).toBe(10);
});

describe("shared breaker", () => {
  test("L27: timeouts of one process open the breaker for the others", async () => {
    const harness = new Harness();
    harness.kernel.health = "hangs";
    const [first, second] = [harness.engine("c1", "remote"), harness.engine("c2", "remote")];
    await harness.run(watchSafety(second));
    await failOften(harness, first);
    expect(breakerOf(harness)).toMatchObject({ kind: "open", openings: 1, reason: "no answer within 1000 ms" });
    await harness.pass(100);
    const requests = recordRequests(harness);
    const startMs = harness.sim.net.timeline.nowMs;
    expect(await harness.run(askKernel(second, REQUEST))).toMatchObject({ kind: "unavailable" });
    expect(requests).toEqual([]);
    expect(harness.sim.net.timeline.nowMs).toBe(startMs);
  });

  test("a process without the broadcast refreshes its copy at its first failure", async () => {
    const harness = new Harness();
    harness.kernel.health = "refuses";
    const [first, second] = [harness.engine("c1", "remote"), harness.engine("c2", "remote")];
    await failOften(harness, first);
    expect(breakerRefusal(second)).toBeNull();
    await harness.run(askKernel(second, REQUEST));
    expect(breakerRefusal(second)).toMatch(/breaker open/);
  });

  test("L28: ten processes send two probes together while the breaker is half-open", async () => {
    const harness = new Harness();
    harness.kernel.health = "hangs";
    const engines = Array.from({ length: 10 }, (_, index) => harness.engine(`c${index}`, "remote"));
    for (const engine of engines) await harness.run(watchSafety(engine));
    await failOften(harness, engines[0] as Engine);
    await harness.pass(8_000);
    const requests = recordRequests(harness);
    const checks = engines.flatMap((engine) => Array.from({ length: 20 }, () => askKernel(engine, REQUEST)));
    const answers = await harness.run(Promise.all(checks));
    expect(requests.length).toBe(2);
    expect(answers.every(({ kind }) => kind === "unavailable")).toBe(true);
    expect(breakerOf(harness)).toMatchObject({ kind: "open", openings: 2 });
  });

  test("one answer closes it for all, and both transitions are audited", async () => {
    const harness = new Harness();
    harness.kernel.health = "refuses";
    const [first, second] = [harness.engine("c1", "remote"), harness.engine("c2", "remote")];
    await harness.run(watchSafety(second));
    await failOften(harness, first);
    await harness.pass(8_000);
    harness.kernel.health = "up";
    expect(await harness.run(askKernel(first, REQUEST))).toMatchObject({ kind: "decided" });
    await harness.pass(1_000);
    expect(breakerOf(harness)).toMatchObject({ kind: "closed" });
    expect([breakerRefusal(first), breakerRefusal(second), second.safety.breaker.kind]).toEqual([null, null, "closed"]);
    await harness.run(chainAll(first));
    const page = await harness.run(first.world.store.list(AUDIT_PAGES, { index: auditPagesOf("*"), limit: 10 }));
    const audited = page.items.flatMap(({ value }) => value.entries.map(({ kind, what }) => `${kind} ${what}`));
    expect(audited).toEqual(["breaker open", "breaker closed"]);
  });

  test("a check does not access the store while it is closed", async () => {
    const harness = new Harness();
    const engine = harness.engine("c1", "remote");
    let calls = 0;
    const store = new Proxy(engine.world.store, {
      get: (target, key) => {
        calls++;
        return Reflect.get(target, key);
      },
    });
    for (let index = 0; index < 20; index++) {
      await harness.run(askKernel(composeEngine({ ...engine, world: { ...engine.world, store } }), REQUEST));
    }
    expect(calls).toBe(0);
  });

  test("L30: a thrown error is not a kernel failure and returns the probe", async () => {
    const harness = new Harness();
    harness.kernel.health = "refuses";
    const engine = harness.engine("c1", "remote");
    const check = () => Promise.reject(new Error("malformed"));
    const throwing = composeEngine({ ...engine, world: { ...engine.world, safety: { local: null, check } } });
    for (let index = 0; index < 20; index++) {
      await expect(harness.run(askKernel(throwing, REQUEST))).rejects.toThrow("malformed");
    }
    expect(breakerOf(harness)).toBeUndefined();
    await failOften(harness, engine);
    await harness.pass(8_000);
    await expect(harness.run(askKernel(throwing, REQUEST))).rejects.toThrow("malformed");
    await harness.pass(100);
    expect(breakerOf(harness)).toMatchObject({ kind: "half_open", probes: [] });
  });
});

/** Fails as often as needed to open the breaker. */
async function failOften(harness: Harness, engine: Engine): Promise<void> {
  const { failures } = harness.settings.safety.breaker;
  for (let index = 0; index < failures; index++) await harness.run(askKernel(engine, REQUEST));
}

const REQUEST = policyRequestOf(anyJob(), 0);

function anySubmission() {
  const checked = checkSubmission({ topic: "demo.echo" });
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  return checked.submission;
}

function anyJob(): Job {
  const context = { nowMs: 0, settings: defaultSettings(), random: () => 0 };
  return newJob(anySubmission(), { jobId: "j", traceId: "t" }, { kind: "inline", value: null }, context);
}
