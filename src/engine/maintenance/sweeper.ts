import { AuditChainer } from "../audit/index.ts";
import { publishAll } from "../commit.ts";
import { backlogTopics, drainAllBacklogs } from "../dispatch/index.ts";
import type { Needs, RunContext } from "../engine.ts";
import { Gauges } from "../observe/index.ts";
import { RolloutJudge, type RolloutRegistry } from "../rollouts/index.ts";
import { stopKilled } from "../safety/index.ts";
import { FingerprintBackfill } from "./dead-letter-groups.ts";
import { DueClaims } from "./due-claims.ts";
import { type Duty, DutyLoop, type DutyStatus } from "./duty-loop.ts";
import { SlotRecounts } from "./recount-slots.ts";

/**
 * Background maintenance: one independent loop per duty (`duty-loop.ts`). Every process runs it. Each pass has a bounded
 * amount of work, and no duty waits for another.
 */
export class Sweeper {
  readonly #due: DueClaims;
  readonly #loops: readonly DutyLoop[];
  readonly #rollouts: RolloutRegistry;
  #unfollow: () => void = () => {};

  constructor(engine: RunContext & Needs<"arrivals" | "admissionLimiter">) {
    this.#rollouts = engine.rollouts;
    this.#due = new DueClaims(engine);
    const duties = dutiesOf(engine, this.#due, () => this.duties());
    this.#loops = duties.map((duty) => new DutyLoop(engine, duty));
  }

  start(): void {
    for (const loop of this.#loops) loop.start();
    this.#unfollow = this.#rollouts.onApply(() => {
      for (const loop of this.#loops) loop.wake();
    });
  }

  async stop(): Promise<void> {
    this.#due.stop();
    this.#unfollow();
    await Promise.all(this.#loops.map((loop) => loop.stop()));
    await this.#due.settled();
  }

  duties(): readonly DutyStatus[] {
    return this.#loops.map((loop) => loop.status());
  }

  /** Runs one duty after another until nothing is left. For tests and measurements; the loops must not be started. */
  async sweep(): Promise<void> {
    const retention = this.#loops.find(({ duty }) => duty.name === "retention");
    // Removes what a pass of the timers found before the next one: the queue of removals is bounded.
    for (const loop of this.#loops) await loop.drain(async () => retention?.drain());
  }

  /** Resolves when all fired records are processed. */
  settled(): Promise<void> {
    return this.#due.settled();
  }
}

function dutiesOf(
  engine: RunContext & Needs<"arrivals" | "admissionLimiter">,
  due: DueClaims,
  statuses: () => readonly DutyStatus[],
): readonly Duty[] {
  const audit = new AuditChainer(engine);
  const recounts = new SlotRecounts();
  const gauges = new Gauges();
  const judge = new RolloutJudge(engine);
  const fingerprints = new FingerprintBackfill(engine);
  const whole = (work: () => Promise<void>) => () => work().then(() => null);
  return [
    { name: "outbox", readiness: "progress", pass: () => relayOutbox(engine) },
    { name: "timers", readiness: "lag", pass: () => due.claim() },
    { name: "retention", readiness: "progress", pass: () => due.removeExpired() },
    { name: "backlog", readiness: "progress", pass: whole(() => drainAllBacklogs(engine)) },
    { name: "audit", readiness: "progress", pass: () => audit.pass() },
    { name: "kills", readiness: "progress", pass: whole(() => stopKilled(engine)) },
    {
      name: "rollouts",
      readiness: "progress",
      everyMs: JUDGE_EVERY_MS,
      isNeeded: () => judge.isNeeded(),
      pass: () => judge.pass(),
    },
    {
      name: "fingerprints",
      readiness: "nothing",
      isNeeded: () => fingerprints.isNeeded(),
      pass: () => fingerprints.pass(),
    },
    { name: "slots", readiness: "progress", everyMs: 60_000, pass: whole(() => recounts.pass(engine)) },
    {
      name: "gauges",
      readiness: "nothing",
      pass: whole(async () => {
        for (const { name, lagMs } of statuses()) {
          engine.world.metrics.set("cordum_duty_lag_seconds", lagMs / 1_000, { duty: name });
        }
        await gauges.show(engine, await backlogTopics(engine));
      }),
    },
  ];
}

const JUDGE_EVERY_MS = 5_000;

/** Sends one batch of messages that were committed and not sent by the process that committed them. */
async function relayOutbox({ world, settings }: Needs<"world" | "settings">): Promise<number | null> {
  const { outboxAgeMs, batchMax } = settings.current.sweep;
  const messages = await world.store.unsent(world.clock.now() - outboxAgeMs, batchMax);
  if (messages.length === 0) return null;
  await publishAll(world, messages);
  world.metrics.add("cordum_outbox_repairs_total", {}, messages.length);
  return outboxAgeMs;
}
