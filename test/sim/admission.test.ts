import { expect, test } from "vitest";
import { defaultSettings } from "../../src/config/config.ts";
import { JOBS, SLOT_WAITS_GROUP } from "../../src/core/model/job.ts";
import { isRunFinal, RUN_RESERVATIONS, RUNS, RUNS_GROUP, type Run } from "../../src/core/model/run.ts";
import { builtInKernel } from "../../src/core/policy/kernel.ts";
import { type Engine, openEngine } from "../../src/engine/engine.ts";
import { rerun } from "../../src/engine/intake/rerun-run.ts";
import { type StartOutcome, startRun } from "../../src/engine/intake/start-run.ts";
import { Sweeper } from "../../src/engine/maintenance/sweeper.ts";
import { cancelRun } from "../../src/engine/runs/control-run.ts";
import { PlanCache } from "../../src/engine/runs/plan-cache.ts";
import { applyWorkflow } from "../../src/engine/runs/workflows.ts";
import type { Change, Committed } from "../../src/ports/store.ts";
import type { World } from "../../src/ports/world.ts";
import { simWorld } from "../../src/sim/adapters/world.ts";
import { around } from "../../src/sim/mutants/decorators.ts";
import type { Process } from "../../src/sim/process.ts";
import { SeededRandom } from "../../src/sim/random.ts";
import { RUN_REQUEST } from "../engine/run-harness.ts";
import { type Bench, openBench } from "./harness.ts";

/**
 * Seeded simulations of admission: three processes start, replay, rerun and cancel runs of two orgs, crash and restart. At
 * every commit the number of open runs is within the limit and equals the slot counter, and no run is admitted before a
 * waiting step. At the end every slot, key and job has its run.
 */
const SEEDS = Number(process.env.CORDUM_SIM_SEEDS ?? 500) * 2;
const BATCH = 50;

const LIMITS = { acme: 2, beta: 1 } as const;
type Org = keyof typeof LIMITS;
const ORGS = Object.keys(LIMITS) as readonly Org[];

test.each(Array.from({ length: Math.ceil(SEEDS / BATCH) }, (_, index) => index * BATCH + 1))(
  "seeds from %i: keeps the run limit at every commit and leaks no slot",
  async (first) => {
    const counts: Record<string, number> = {};
    for (let seed = first; seed < first + BATCH; seed++) {
      const trial = new Trial(seed, counts);
      await trial.run();
      expect(trial.violations).toEqual([]);
      await trial.checkEnd();
    }
    // The workload must reach each of these.
    for (const what of ["started", "full", "replayed", "crash", "unanswered"]) {
      expect(counts[what]).toBeGreaterThan(0);
    }
  },
);

test.each(["unguarded-slot", "unguarded-queue", "lost-key"] as const)("catches the mutant %s", async (mutant) => {
  const found: string[] = [];
  for (let seed = 1; seed <= 200 && found.length === 0; seed++) {
    const trial = new Trial(seed, {}, mutant);
    await trial.run();
    found.push(...trial.violations);
  }
  expect(found.length).toBeGreaterThan(0);
});

type TrialMutant = "unguarded-slot" | "unguarded-queue" | "lost-key";

class Trial {
  readonly #seed: number;
  readonly #random: SeededRandom;
  readonly #bench: Bench;
  readonly #counts: Record<string, number>;
  readonly #hosts: Host[] = [];
  readonly #runs: { readonly org: Org; readonly runId: string }[] = [];
  readonly #keys = new Map<string, string>();
  /** Collected, because the simulated servers must not throw. */
  readonly violations: string[] = [];
  readonly #settings;
  readonly #mutant: TrialMutant | undefined;
  #boots = 0;

  constructor(seed: number, counts: Record<string, number>, mutant?: TrialMutant) {
    this.#seed = seed;
    this.#mutant = mutant;
    this.#random = new SeededRandom(seed);
    this.#counts = counts;
    this.#bench = openBench({ random: this.#random.fork("bench"), verifiesWrites: false });
    const defaults = defaultSettings();
    const strategy = this.#random.chance(0.3) ? "polled" : "atomic";
    this.#settings = {
      ...defaults,
      admission: { strategy, polled: { ...defaults.admission.polled, ttlMs: 2_000 } },
      runLock: { ...defaults.runLock, ttlMs: 5_000 },
      sweep: { ...defaults.sweep, everyMs: 3_000, horizonMs: 3_000 },
      limits: { ...defaults.limits, concurrentRunsMax: LIMITS.acme },
      orgs: { beta: { limits: { concurrentRunsMax: LIMITS.beta } } },
    } as const;
  }

  async run(): Promise<void> {
    const bench = this.#bench;
    for (const name of ["c1", "c2", "c3"]) this.#hosts.push(this.#boot(name));
    for (const org of ORGS) {
      for (const document of DOCUMENTS) {
        await bench.run(applyWorkflow(this.#hosts[0]!.engine, { org, by: "trial", document }));
      }
    }
    const check = (change: Change, { kind }: Committed) => {
      if (kind !== "committed") return;
      this.#checkLimit();
      this.#checkQueue(change);
    };
    bench.net.onCommit = (by, change, committed) => {
      check(change, committed);
      if (this.#random.chance(0.03)) this.#crash(by);
    };
    for (let act = 0; act < 10; act++) {
      const burst = 1 + this.#random.below(4);
      for (let at = 0; at < burst; at++) this.#act();
      await bench.pass(this.#random.between(0, 400));
      this.#restartCrashed();
    }
    bench.net.onCommit = (_, change, committed) => check(change, committed);
    this.#restartCrashed();
    // Longer than the lock TTLs and the sweep interval.
    await bench.pass(12_000);
  }

  #act(): void {
    const { engine } = this.#random.pick(this.#hosts);
    const org = this.#random.pick(ORGS);
    const draw = this.#random.next();
    const done = this.#runs.filter((run) => run.org === org);
    if (draw < 0.25 && done.length > 0) {
      const { runId } = this.#random.pick(done);
      void cancelRun(engine, { org, runId, by: "trial", why: "enough" }).catch(() => {});
    } else if (draw < 0.35 && done.length > 0) {
      const { runId } = this.#random.pick(done);
      void rerun(engine, { org, runId, fromStep: "ask", by: "trial", idempotencyKey: null }).catch(() => {});
    } else this.#start(engine, org);
  }

  #start(engine: Engine, org: Org): void {
    const workflowId = this.#random.pick(["ask", "ask", "outer"]);
    const idempotencyKey = this.#random.chance(0.5) ? `k${this.#random.below(3)}${workflowId}` : null;
    this.#count("unanswered", 1);
    void startRun(engine, { ...RUN_REQUEST, org, workflowId, idempotencyKey }, "trial").then(
      (outcome) => this.#record(org, idempotencyKey, outcome),
      () => {},
    );
  }

  #record(org: Org, key: string | null, outcome: StartOutcome): void {
    this.#count("unanswered", -1);
    this.#count(outcome.kind, 1);
    if (outcome.kind !== "started" && outcome.kind !== "replayed") return;
    if (outcome.kind === "started") this.#runs.push({ org, runId: outcome.runId });
    if (key === null) return;
    // All replies for one key must have the same run.
    const known = this.#keys.get(`${org} ${key}`) ?? outcome.runId;
    this.#keys.set(`${org} ${key}`, known);
    if (known !== outcome.runId) this.violations.push(`seed ${this.#seed}: key \`${key}\` gave two runs`);
  }

  #checkLimit(): void {
    for (const org of ORGS) {
      const open = this.#open(org).length;
      const slots = this.#bench.net.store.count(RUNS_GROUP, org);
      if (open > LIMITS[org] || slots !== open) {
        this.violations.push(`seed ${this.#seed}: ${open} runs of \`${org}\` are open, ${slots} slots taken`);
      }
    }
  }

  #checkQueue({ puts }: Change): void {
    for (const { table, expect: version, value } of puts) {
      const run = value as Run | null;
      if (table !== RUNS.name || version !== 0 || run === null || run.parent) continue;
      const waiting = this.#bench.net.store.count(SLOT_WAITS_GROUP, run.org);
      if (waiting > 0)
        this.violations.push(`seed ${this.#seed}: ${run.id} was admitted before ${waiting} waiting steps`);
    }
  }

  async checkEnd(): Promise<void> {
    const { store } = this.#bench.net;
    const runs = new Map([...store.rows(RUNS)].map(({ id, value }) => [id, value]));
    for (const { value } of store.rows(RUN_RESERVATIONS)) expect(runs.has(value.runId)).toBe(true);
    for (const { value } of store.rows(JOBS)) expect(runs.has(value.step?.runId ?? "")).toBe(true);
    // Locks of crashed processes expire, so all runs can end and all slots become free.
    const { engine } = this.#hosts[0]!;
    for (const { id, org } of this.#opened()) {
      await this.#bench.run(cancelRun(engine, { org, runId: id, by: "trial", why: "the end" }));
    }
    await this.#bench.pass(10_000);
    expect(this.#opened()).toEqual([]);
    for (const org of ORGS) {
      const request = { ...RUN_REQUEST, org, workflowId: "ask" };
      const starts = Array.from({ length: 5 }, () => startRun(engine, request, "trial"));
      const started = (await this.#bench.run(Promise.all(starts))).filter(({ kind }) => kind === "started");
      expect(started).toHaveLength(LIMITS[org]);
    }
  }

  #boot(name: string): Host {
    // A new name for each boot, because the random generator is forked by name.
    this.#boots += 1;
    const { process } = this.#bench.enter(`${name}.${this.#boots}`);
    const world = this.#mutated(simWorld(this.#bench.net, process, { safety: "local" }));
    const engine = { ...openEngine(world, { current: this.#settings }, KERNEL), plans: PLANS };
    new Sweeper(engine).start();
    return { name, process, engine };
  }

  /** Removes the counter guards of a group, or the reservations of idempotency keys. */
  #mutated(world: World): World {
    if (this.#mutant === undefined) return world;
    const groups = { "unguarded-slot": RUNS_GROUP, "unguarded-queue": SLOT_WAITS_GROUP, "lost-key": null };
    const group = groups[this.#mutant];
    const commit = (change: Change) =>
      world.store.commit({
        ...change,
        guards: change.guards.filter((guard) => guard.kind !== "counter" || guard.counter.group !== group),
        puts: group !== null ? change.puts : change.puts.filter(({ table }) => table !== RUN_RESERVATIONS.name),
      });
    return { ...world, store: around(world.store, { commit }) };
  }

  #crash(by: Process): void {
    if (!by.isAlive) return;
    this.#count("crash", 1);
    by.crash();
  }

  #restartCrashed(): void {
    for (const [at, { name, process }] of this.#hosts.entries()) {
      if (!process.isAlive) this.#hosts[at] = this.#boot(name);
    }
  }

  #open(org: Org): readonly Run[] {
    return this.#opened().filter((run) => run.org === org);
  }

  #opened(): readonly Run[] {
    return [...this.#bench.net.store.rows(RUNS)].map(({ value }) => value).filter(({ state }) => !isRunFinal(state));
  }

  #count(what: string, by: number): void {
    this.#counts[what] = (this.#counts[what] ?? 0) + by;
  }
}

interface Host {
  readonly name: string;
  readonly process: Process;
  readonly engine: Engine;
}

/** Compiled once for all trials. */
const KERNEL = builtInKernel();
const PLANS = new PlanCache();

const DOCUMENTS = [
  { id: "ask", steps: { ask: { type: "approval" } } },
  { id: "outer", steps: { ask: { type: "subworkflow", workflow: "ask" } } },
];
