import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { CONTENTION, keyHash, RETENTION_MS } from "../../../src/core/contention/acquisition.ts";
import { decodeRecord } from "../../../src/core/contention/codec.ts";
import { parsePolicy } from "../../../src/core/retry/policies.ts";
import type { Settings } from "../../../src/core/settings.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { admissionLockOf, withAdmissionLock } from "../../../src/engine/intake/admission-lock.ts";
import { readContention } from "../../../src/engine/observe/index.ts";
import { runLockKey } from "../../../src/engine/runs/index.ts";
import { RunHarness } from "../run-harness.ts";

const FAN = {
  id: "fan",
  steps: { each: { topic: "work.fan", for_each: "${input.items}", max_parallel: 100, input: "${item}" } },
};
const CHAIN = { id: "chain", steps: { one: { topic: "work.fan" }, two: { topic: "work.fan", depends_on: ["one"] } } };

describe("contention recorder", () => {
  test("records the results of a run that met on its lock, from every process", async () => {
    const { harness, engine, runId } = await runFan(30, BASELINE_LOCK, 3, 2);
    await harness.pass(61_000);
    const records = (await harness.run(readContention(engine, 0))).map(decodeRecord);
    const all = records.flatMap(({ acquisitions }) => acquisitions);
    expect(records.length).toBeGreaterThan(1);
    expect(new Set(records.map(({ process }) => process)).size).toBe(records.length);
    expect(new Set(all.map(({ key }) => key))).toEqual(new Set([keyHash(runLockKey(runId))]));
    // The first holder met no other one.
    expect(all.length).toBeGreaterThanOrEqual(29);
    expect(all.length).toBeLessThanOrEqual(30);
    const retried = all.filter(({ attempts }) => attempts > 1);
    expect(retried.length).toBeGreaterThan(20);
    for (const { attempts, waitMs } of retried) {
      expect(waitMs).toBeGreaterThanOrEqual((attempts - 1) * 350);
      expect(waitMs).toBeLessThanOrEqual((attempts - 1) * 690);
    }
    expect(records[0]).toMatchObject({
      level: 0,
      inForce: { lockBusyPolicy: "bounded:500ms:0.3", engineWaitMs: 0, coalesce: false },
    });
    // Whole milliseconds: a mean needs some values, which not every process has.
    expect(records.some(({ lockMs }) => lockMs !== null && lockMs > 0 && lockMs < 10)).toBe(true);
    expect(records.every(({ lockMs, returnMs }) => (lockMs ?? 0) < 10 && (returnMs ?? 0) < 50)).toBe(true);
  });

  test("records the results that shared a commit", async () => {
    const { harness, engine } = await runFan(30, {}, 1);
    await harness.pass(61_000);
    const [record] = (await harness.run(readContention(engine, 0))).map(decodeRecord);
    expect(record?.acquisitions.length).toBeGreaterThan(20);
    expect(record?.acquisitions.every(({ attempts }) => attempts === 1)).toBe(true);
    expect(record?.acquisitions.some(({ wasBlocked }) => wasBlocked)).toBe(true);
  });

  test("writes nothing without contention", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("a");
    await harness.worker("w", ["work.fan"], async () => null, 1);
    await harness.apply(engine, CHAIN);
    await harness.started(engine, "chain");
    await harness.pass(120_000);
    expect([...harness.sim.net.store.rows(CONTENTION)]).toEqual([]);
  });

  test("writes nothing when it is off", async () => {
    const { harness } = await runFan(30, { ...BASELINE_LOCK, contention: { record: false } }, 2);
    await harness.pass(120_000);
    expect([...harness.sim.net.store.rows(CONTENTION)]).toEqual([]);
  });

  test("writes the rest when the process stops", async () => {
    const { harness, control } = await runFan(30, BASELINE_LOCK, 1);
    expect([...harness.sim.net.store.rows(CONTENTION)]).toEqual([]);
    await harness.run(control.stop());
    expect([...harness.sim.net.store.rows(CONTENTION)]).toHaveLength(1);
  });

  test("records hold times and waits of the admission lock, and refused starts", async () => {
    const polled = { policy: parsePolicy("fixed:10ms"), maxWaitMs: 50, ttlMs: 10_000 };
    const harness = new RunHarness({ admission: { strategy: "polled", polled } });
    const engine = harness.engine("a");
    const enter = () => withAdmissionLock(engine, "acme", () => pause(engine, 20));
    await harness.run(Promise.all(Array.from({ length: 5 }, enter)));
    await harness.run(engine.contention.flush());
    const [row] = [...harness.sim.net.store.rows(CONTENTION)];
    const { acquisitions } = decodeRecord(row!.value);
    expect(acquisitions.map(({ isRefused }) => isRefused)).toContain(true);
    const held = acquisitions.filter(({ isRefused }) => !isRefused);
    expect(held.length).toBeGreaterThanOrEqual(2);
    for (const { holdMs, path, key } of held) {
      expect(holdMs).toBeGreaterThanOrEqual(20);
      expect(holdMs).toBeLessThan(25);
      expect([path, key]).toEqual(["admission", keyHash(admissionLockOf("acme"))]);
    }
    expect(JSON.stringify(row)).not.toContain("acme");
  });

  test("keeps records for a day", async () => {
    const { harness, engine } = await runFan(20, BASELINE_LOCK, 1);
    await harness.pass(61_000);
    expect([...harness.sim.net.store.rows(CONTENTION)]).toHaveLength(1);
    const [record] = (await harness.run(readContention(engine, 0))).map(decodeRecord);
    expect(await harness.run(readContention(engine, (record?.toMs ?? 0) + 1))).toEqual([]);
    harness.crash("process-0");
    await harness.pass(RETENTION_MS);
    await harness.control("later");
    await harness.pass(10_000);
    expect([...harness.sim.net.store.rows(CONTENTION)]).toEqual([]);
  });
});

const { runLock } = defaultSettings();
const BASELINE_LOCK: Partial<Settings> = { runLock: { ...runLock, engineWaitMs: 0, coalesce: false } };

async function runFan(items: number, settings: Partial<Settings>, processes: number, seed = 1) {
  const harness = new RunHarness(settings, seed);
  const controls = [];
  for (let at = 0; at < processes; at++) controls.push(await harness.control(`process-${at}`));
  const [{ engine, control }] = controls as [(typeof controls)[number]];
  await harness.worker("w", ["work.fan"], async () => null, items);
  await harness.apply(engine, FAN);
  const runId = await harness.started(engine, "fan", {
    input: { items: Array.from({ length: items }, (_, at) => at) },
  });
  await harness.pass(20_000);
  expect(harness.runOf(runId).state).toBe("SUCCEEDED");
  return { harness, engine, control, runId };
}

const pause = (engine: Engine, delayMs: number) =>
  new Promise<void>((resolve) => {
    engine.world.clock.after(delayMs, resolve);
  });
