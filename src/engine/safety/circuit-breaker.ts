import { BREAKER_LEVEL, BREAKERS, SAFETY_BREAKER } from "../../core/model/breaker.ts";
import { EVERYBODY } from "../../core/model/fail-open.ts";
import type { PolicyRequest } from "../../core/policy/decision.ts";
import {
  type Breaker,
  type BreakerEvent,
  type BreakerGiven,
  CLOSED,
  permission,
  stepBreaker,
} from "../../core/retry/breaker.ts";
import type { Checked } from "../../ports/safety.ts";
import { put } from "../../ports/store.ts";
import { audited } from "../audit/audit-log.ts";
import { tellChanged } from "../change-broadcast.ts";
import { apply, untilFresh } from "../commit.ts";
import { type Flow, given } from "../engine.ts";

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
export async function askKernel(flow: Flow, request: PolicyRequest): Promise<Checked> {
  const { safety } = flow.world;
  if (safety.local) return { kind: "decided", decision: safety.local(request) };
  const refused = refusal(flow);
  if (refused !== null) return { kind: "unavailable", reason: refused };
  const isProbe = flow.safety.breaker.kind !== "closed";
  const probe = isProbe ? await claimProbe(flow) : null;
  if (isProbe && probe === null) return { kind: "unavailable", reason: refusal(flow) ?? BEING_TRIED };
  return call(flow, probe, () => safety.check(request));
}

/** Why nobody is asked now; null when a try is worth it. From memory: it costs nothing. */
export function refusal(flow: Flow): string | null {
  const { breaker, claiming } = flow.safety;
  const asked = permission(breaker, givenFor(flow));
  if (breaker.kind === "closed" || asked === "call") return null;
  if (asked === "probe" && claiming < flow.settings.current.safety.breaker.probes) return null;
  renewInTime(flow);
  return asked === "probe" ? BEING_TRIED : sentenceOf(breaker);
}

/** Another process has changed it. */
export function breakerChanged(flow: Flow): void {
  flow.safety.breakerRead.forget();
  renewInTime(flow);
}

async function call(flow: Flow, probe: string | null, ask: () => Promise<Checked>): Promise<Checked> {
  let checked: Checked;
  try {
    checked = await ask();
  } catch (error) {
    if (probe !== null) inBackground(flow, share(flow, { kind: "released", probe }));
    throw error;
  }
  if (checked.kind === "unavailable") {
    await noteFailure(flow, probe, checked.reason);
  } else if (probe !== null) {
    // The verdict does not wait for it: if it cannot be written, the probe's own time ends it.
    inBackground(flow, share(flow, { kind: "succeeded", probe }));
  } else if (flow.safety.breaker.kind === "closed") {
    flow.safety.breaker = CLOSED;
  }
  return checked;
}

async function claimProbe(flow: Flow): Promise<string | null> {
  const probe = flow.world.random.id();
  flow.safety.claiming++;
  try {
    const after = await share(flow, { kind: "claimed", probe });
    const isOurs = after.kind === "half_open" && after.probes.some(({ id }) => id === probe);
    return isOurs ? probe : null;
  } finally {
    flow.safety.claiming--;
  }
}

async function noteFailure(flow: Flow, probe: string | null, reason: string): Promise<void> {
  const { safety } = flow;
  if (probe !== null) {
    await share(flow, { kind: "failed", probe, reason });
    return;
  }
  if (safety.breaker.kind !== "closed") return;
  const next = stepBreaker(safety.breaker, { kind: "failed", probe, reason }, givenFor(flow));
  if (next.kind === "closed") {
    safety.breaker = next;
    await renew(flow); // Others may have found out before.
  } else if (!safety.opening) {
    safety.opening = true;
    try {
      await share(flow, { kind: "failed", probe, reason });
    } finally {
      safety.opening = false;
    }
  }
}

/** Load, decide, commit: what becomes of the shared breaker. */
function share(flow: Flow, event: BreakerEvent): Promise<Breaker> {
  return untilFresh("the safety breaker", async () => {
    const { breakerCopies } = flow.safety;
    const found = await flow.world.store.load(BREAKERS, SAFETY_BREAKER);
    const before = withOwnCount(flow, found?.value ?? CLOSED);
    const after = stepBreaker(before, event, givenFor(flow));
    if (after === before || (after.kind === "closed" && before.kind === "closed")) {
      adopt(flow, after, found?.version ?? 0, breakerCopies);
      return after;
    }
    const isNews = after.kind !== before.kind && (after.kind !== "half_open" || before.kind === "closed");
    const line = { org: EVERYBODY, kind: "breaker", who: "cordum", what: after.kind } as const;
    const facts = { process: flow.world.name, reason: "reason" in after ? after.reason : null };
    const committed = await apply(flow, {
      org: EVERYBODY,
      puts: [put(BREAKERS, SAFETY_BREAKER, found, after), ...(isNews ? [audited(flow, { ...line, facts })] : [])],
    });
    if (committed.kind !== "committed") return "stale";
    adopt(flow, after, (found?.version ?? 0) + 1, breakerCopies);
    if (isNews) announce(flow, after);
    return after;
  });
}

/** A closed breaker in the store does not know of the failures that this process has counted. */
function withOwnCount(flow: Flow, stored: Breaker): Breaker {
  return stored.kind === "closed" && flow.safety.breaker.kind === "closed" ? flow.safety.breaker : stored;
}

/** `copies` is how many there were when the store was asked. */
function adopt(flow: Flow, breaker: Breaker, version: number, copies: number): void {
  const { safety, world } = flow;
  // An answer that took its time may be older than what came to be known meanwhile. If nothing did, the store has gone back.
  if (version < safety.breakerVersion && copies !== safety.breakerCopies) return;
  safety.breaker = breaker;
  safety.breakerVersion = version;
  safety.breakerCopies += 1;
  world.metrics.set("cordum_safety_breaker_state", BREAKER_LEVEL[breaker.kind]);
}

function announce(flow: Flow, breaker: Breaker): void {
  const { log } = flow.world;
  if (breaker.kind === "open") {
    const { reason, openings, untilMs } = breaker;
    log.write("warn", "safety_breaker_opened", { reason, openings, until: new Date(untilMs).toISOString() });
  } else if (breaker.kind === "closed") {
    log.write("info", "safety_breaker_closed");
  }
  tellChanged(flow, BREAKERS.name);
}

function renew(flow: Flow): Promise<void> {
  return flow.safety.breakerRead.run(flow.world.clock.now(), async () => {
    const { breakerCopies } = flow.safety;
    const found = await flow.world.store.load(BREAKERS, SAFETY_BREAKER);
    adopt(flow, withOwnCount(flow, found?.value ?? CLOSED), found?.version ?? 0, breakerCopies);
  });
}

/** Not more often than that, whoever asks how often; nobody waits for it. */
function renewInTime(flow: Flow): void {
  const { breakerRead } = flow.safety;
  if (breakerRead.isUnderWay || !breakerRead.isOlderThan(RENEW_MS, flow.world.clock.now())) return;
  inBackground(flow, renew(flow));
}

function inBackground(flow: Flow, work: Promise<unknown>): void {
  const logged = work.catch((error: unknown) => {
    flow.world.log.write("warn", "safety_breaker_not_shared", { error: String(error) });
  });
  flow.desk.track(logged);
}

function givenFor(flow: Flow): BreakerGiven {
  const { nowMs, settings, random } = given(flow);
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
