import { BREAKER_LEVEL, BREAKERS, SAFETY_BREAKER } from "../../core/model/breaker.ts";
import { ALL_TENANTS } from "../../core/model/fail-open.ts";
import type { PolicyRequest } from "../../core/policy/decision.ts";
import {
  type Breaker,
  type BreakerContext,
  type BreakerEvent,
  CLOSED,
  permission,
  stepBreaker,
} from "../../core/retry/breaker.ts";
import type { Checked } from "../../ports/safety.ts";
import { put } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import { broadcastChange } from "../change-broadcast.ts";
import { retryOnConflict } from "../commit.ts";
import { decisionContext } from "../context.ts";
import type { Needs } from "../engine.ts";

/**
 * The circuit breaker before a safety kernel elsewhere, shared by all processes (`retry/breaker.ts` has the rules).
 *
 * 1. While it is closed a check costs no access to the store. Each process counts its own failures in a row; the first
 *    that has enough of them opens it for all.
 * 2. While it is open a check costs nothing at all. Probes are claimed in the store, so all processes together send no
 *    more than `probes` of them.
 * 3. A copy is renewed when the others tell of a change, at each failure, and, while it is not closed, once in a while.
 * 4. A store that goes back (restored from a copy, a record removed) is followed: what is in it is what holds.
 * 5. Only a kernel that did not answer is a failure. What is thrown (a store, a shutdown, a request that makes no sense)
 *    is thrown as itself: it is neither a failure nor an answer (L29, L30).
 */
export async function askKernel(
  engine: Needs<"world" | "settings" | "commit" | "tasks" | "audit" | "safety">,
  request: PolicyRequest,
): Promise<Checked> {
  const { safety } = engine.world;
  if (safety.local) return { kind: "decided", decision: safety.local(request) };
  const refused = breakerRefusal(engine);
  if (refused !== null) return { kind: "unavailable", reason: refused };
  const isProbe = engine.safety.breaker.kind !== "closed";
  const probe = isProbe ? await claimProbe(engine) : null;
  if (isProbe && probe === null) return { kind: "unavailable", reason: breakerRefusal(engine) ?? BEING_TRIED };
  return call(engine, probe, () => safety.check(request));
}

/** Why nobody is asked now; null when a try is worth it. From memory: it costs nothing. */
export function breakerRefusal(engine: Needs<"world" | "settings" | "tasks" | "safety">): string | null {
  const { breaker, claiming } = engine.safety;
  const asked = permission(breaker, givenFor(engine));
  if (breaker.kind === "closed" || asked === "call") return null;
  if (asked === "probe" && claiming < engine.settings.current.safety.breaker.probes) return null;
  renewInTime(engine);
  return asked === "probe" ? BEING_TRIED : sentenceOf(breaker);
}

/** Another process has changed it. */
export function breakerChanged(engine: Needs<"world" | "tasks" | "safety">): void {
  engine.safety.breakerRead.forget();
  renewInTime(engine);
}

async function call(
  engine: Needs<"world" | "settings" | "commit" | "tasks" | "audit" | "safety">,
  probe: string | null,
  ask: () => Promise<Checked>,
): Promise<Checked> {
  let checked: Checked;
  try {
    checked = await ask();
  } catch (error) {
    if (probe !== null) inBackground(engine, share(engine, { kind: "released", probe }));
    throw error;
  }
  if (checked.kind === "unavailable") {
    await noteFailure(engine, probe, checked.reason);
  } else if (probe !== null) {
    // The verdict does not wait for it: if it cannot be written, the probe's own time ends it.
    inBackground(engine, share(engine, { kind: "succeeded", probe }));
  } else if (engine.safety.breaker.kind === "closed") {
    engine.safety.breaker = CLOSED;
  }
  return checked;
}

async function claimProbe(engine: Needs<"world" | "settings" | "commit" | "audit" | "safety">): Promise<string | null> {
  const probe = engine.world.random.id();
  engine.safety.claiming++;
  try {
    const after = await share(engine, { kind: "claimed", probe });
    const isOurs = after.kind === "half_open" && after.probes.some(({ id }) => id === probe);
    return isOurs ? probe : null;
  } finally {
    engine.safety.claiming--;
  }
}

async function noteFailure(
  engine: Needs<"world" | "settings" | "commit" | "audit" | "safety">,
  probe: string | null,
  reason: string,
): Promise<void> {
  const { safety } = engine;
  if (probe !== null) {
    await share(engine, { kind: "failed", probe, reason });
    return;
  }
  if (safety.breaker.kind !== "closed") return;
  const next = stepBreaker(safety.breaker, { kind: "failed", probe, reason }, givenFor(engine));
  if (next.kind === "closed") {
    safety.breaker = next;
    await renew(engine); // Others may have found out before.
  } else if (!safety.opening) {
    safety.opening = true;
    try {
      await share(engine, { kind: "failed", probe, reason });
    } finally {
      safety.opening = false;
    }
  }
}

/** Load, decide, commit: what becomes of the shared breaker. */
function share(
  engine: Needs<"world" | "settings" | "commit" | "audit" | "safety">,
  event: BreakerEvent,
): Promise<Breaker> {
  return retryOnConflict("the safety breaker", async () => {
    const { breakerCopies } = engine.safety;
    const found = await engine.world.store.load(BREAKERS, SAFETY_BREAKER);
    const before = withOwnCount(engine, found?.value ?? CLOSED);
    const after = stepBreaker(before, event, givenFor(engine));
    if (after === before || (after.kind === "closed" && before.kind === "closed")) {
      adopt(engine, after, found?.version ?? 0, breakerCopies);
      return after;
    }
    const isNews = after.kind !== before.kind && (after.kind !== "half_open" || before.kind === "closed");
    const line = { org: ALL_TENANTS, kind: "breaker", who: "cordum", what: after.kind } as const;
    const facts = { process: engine.world.name, reason: "reason" in after ? after.reason : null };
    const committed = await engine.commit({
      org: ALL_TENANTS,
      puts: [put(BREAKERS, SAFETY_BREAKER, found, after), ...(isNews ? [auditPut(engine, { ...line, facts })] : [])],
    });
    if (committed.kind !== "committed") return "stale";
    adopt(engine, after, (found?.version ?? 0) + 1, breakerCopies);
    if (isNews) announce(engine, after);
    return after;
  });
}

/** A closed breaker in the store does not know of the failures that this process has counted. */
function withOwnCount(engine: Needs<"safety">, stored: Breaker): Breaker {
  return stored.kind === "closed" && engine.safety.breaker.kind === "closed" ? engine.safety.breaker : stored;
}

/** `copies` is how many there were when the store was asked. */
function adopt(engine: Needs<"world" | "safety">, breaker: Breaker, version: number, copies: number): void {
  const { safety, world } = engine;
  // An answer that took its time may be older than what came to be known meanwhile. If nothing did, the store has gone back.
  if (version < safety.breakerVersion && copies !== safety.breakerCopies) return;
  safety.breaker = breaker;
  safety.breakerVersion = version;
  safety.breakerCopies += 1;
  world.metrics.set("cordum_safety_breaker_state", BREAKER_LEVEL[breaker.kind]);
}

function announce(engine: Needs<"world">, breaker: Breaker): void {
  const { log } = engine.world;
  if (breaker.kind === "open") {
    const { reason, openings, untilMs } = breaker;
    log.write("warn", "safety_breaker_opened", { reason, openings, until: new Date(untilMs).toISOString() });
  } else if (breaker.kind === "closed") {
    log.write("info", "safety_breaker_closed");
  }
  broadcastChange(engine, BREAKERS.name);
}

function renew(engine: Needs<"world" | "safety">): Promise<void> {
  return engine.safety.breakerRead.run(engine.world.clock.now(), async () => {
    const { breakerCopies } = engine.safety;
    const found = await engine.world.store.load(BREAKERS, SAFETY_BREAKER);
    adopt(engine, withOwnCount(engine, found?.value ?? CLOSED), found?.version ?? 0, breakerCopies);
  });
}

/** Not more often than that, whoever asks how often; nobody waits for it. */
function renewInTime(engine: Needs<"world" | "tasks" | "safety">): void {
  const { breakerRead } = engine.safety;
  if (breakerRead.isUnderWay || !breakerRead.isOlderThan(RENEW_MS, engine.world.clock.now())) return;
  inBackground(engine, renew(engine));
}

function inBackground(engine: Needs<"world" | "tasks">, work: Promise<unknown>): void {
  const logged = work.catch((error: unknown) => {
    engine.world.log.write("warn", "safety_breaker_not_shared", { error: String(error) });
  });
  engine.tasks.track(logged);
}

function givenFor(engine: Needs<"world" | "settings">): BreakerContext {
  const { nowMs, settings, random } = decisionContext(engine);
  const { breaker, timeoutMs } = settings.safety;
  return { nowMs, random, rule: { ...breaker, probeMs: 2 * timeoutMs + PROBE_SLACK_MS } };
}

function sentenceOf(breaker: Exclude<Breaker, { kind: "closed" }>): string {
  return `the circuit breaker is ${breaker.kind === "open" ? "open" : "half open"} (${breaker.reason})`;
}

const BEING_TRIED = "the circuit breaker is half open, others try whether the kernel is back";
const RENEW_MS = 1_000;
/** For the answer to be written down. */
const PROBE_SLACK_MS = 1_000;
