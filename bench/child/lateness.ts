import { setTimeout as delay } from "node:timers/promises";
import { retryAfter } from "../../src/core/retry/intent.ts";
import { percentile } from "../frame/figures.ts";
import type { Backend, Events, OpenBackend } from "./backend.ts";
import { Ledger } from "./ledger.ts";
import { type Input, inputOf } from "./payload.ts";
import type { LatenessFigures, LatenessTask } from "./task.ts";

/**
 * A closed loop of jobs as load, next to probes at a steady rate. A probe is a job whose first attempt asks for a retry: it
 * waits in the store with its due time, as a lease, a delay or a deadline does. It is late by the time from its due time to
 * its second attempt.
 */
export async function runLateness(task: LatenessTask, open: OpenBackend): Promise<LatenessFigures> {
  const probes = new Probes(task);
  const backend = await open(task.backend, "all", probes);
  await backend.start();
  probes.begin(backend);
  await delay(task.warmMs);
  const beganMs = performance.now();
  probes.ledger.beginWindow();
  const timer = setInterval(() => probes.submit(true), 1_000 / task.probesPerSecond);
  await delay(task.measureMs);
  clearInterval(timer);
  const { jobs } = probes.ledger.endWindow();
  const seconds = (performance.now() - beganMs) / 1_000;
  // The load lasts until the last probe is back.
  await Promise.race([probes.returned(), delay(RETURN_MS_MAX)]);
  probes.end();
  await Promise.race([probes.drained, delay(DRAIN_MS_MAX)]);
  await backend.close();
  const lateMs = probes.lateMs();
  return {
    jobs,
    seconds,
    lateP50Ms: percentile(lateMs, 0.5),
    lateP99Ms: percentile(lateMs, 0.99),
    lateMaxMs: Math.max(...lateMs),
    faults: probes.faults(),
  };
}

class Probes implements Events {
  readonly ledger = new Ledger();
  readonly drained: Promise<void>;
  readonly #task: LatenessTask;
  readonly #open = new Set<number>();
  readonly #dueOf = new Map<number, number>();
  readonly #backOf = new Map<number, number>();
  #backend: Backend | null = null;
  #isRunning = false;
  #onReturned: () => void = () => {};
  #onDrained: () => void = () => {};

  constructor(task: LatenessTask) {
    this.#task = task;
    this.drained = new Promise((resolve) => {
      this.#onDrained = resolve;
    });
  }

  begin(backend: Backend): void {
    this.#backend = backend;
    this.#isRunning = true;
    for (let slot = 0; slot < this.#task.inFlight; slot++) this.submit(false);
  }

  end(): void {
    this.#isRunning = false;
    if (this.ledger.open === 0) this.#onDrained();
  }

  submit(isProbe: boolean): void {
    const n = this.ledger.submit(performance.now());
    if (isProbe) this.#open.add(n);
    // In a tick of its own, as requests arrive over HTTP: each has its own commits and audit record.
    setImmediate(() => void this.#backend?.submit(inputOf(n)));
  }

  worked({ n }: Input, attempt: number): void {
    if (this.#open.has(n)) {
      if (attempt === 1) throw retryAfter(new Error("probe"), this.#task.delayMs * (1 + Math.random()), "unclassified");
      this.#backOf.set(n, Date.now());
      this.#open.delete(n);
      if (this.#open.size === 0) this.#onReturned();
    }
    this.ledger.work(n);
  }

  retrying(n: number, dueMs: number): void {
    this.#dueOf.set(n, dueMs);
  }

  ended(n: number): void {
    const isProbe = this.#dueOf.has(n);
    this.ledger.end(n, performance.now(), !isProbe);
    if (this.#isRunning && !isProbe) this.submit(false);
    else if (this.ledger.open === 0) this.#onDrained();
  }

  returned(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onReturned = resolve;
    });
  }

  lateMs(): number[] {
    return [...this.#backOf].map(([n, backMs]) => backMs - (this.#dueOf.get(n) ?? backMs));
  }

  faults(): string[] {
    const faults = this.ledger.faults({ isWorkHere: true, isDrained: true });
    if (this.#open.size > 0) faults.push(`${this.#open.size} probes did not return`);
    return faults;
  }
}

const RETURN_MS_MAX = 60_000;
const DRAIN_MS_MAX = 60_000;
