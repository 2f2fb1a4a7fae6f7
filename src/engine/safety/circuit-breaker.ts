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
import { decisionContext, NO_UNIT } from "../context.ts";
import type { Needs } from "../engine.ts";

/**
 * The circuit breaker of a remote safety kernel, shared by all processes (rules: `core/retry/breaker.ts`).
 *
 * 1. Closed: a check needs no store access. Each process counts its consecutive failures; the first to reach the limit
 *    opens the breaker for all.
 * 2. Open: a check costs nothing. Probes are claimed in the store, so all processes together send at most `probes`.
 * 3. The local copy is refreshed on a change broadcast, at each failure, and periodically while the breaker is not
 *    closed.
 * 4. A store that was restored from a backup is followed: its record is authoritative.
 * 5. Only a kernel that did not answer counts as a failure. Other errors (store, shutdown, malformed request) are
 *    rethrown and count as nothing (L29, L30).
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
  if (isProbe && probe === null) return { kind: "unavailable", reason: breakerRefusal(engine) ?? PROBE_IN_PROGRESS };
  return call(engine, probe, () => safety.check(request));
}

/** Why no call is made now; null if one may be tried. Uses the local copy only. */
export function breakerRefusal(engine: Needs<"world" | "settings" | "tasks" | "safety">): string | null {
  const { breaker, claiming } = engine.safety;
  const asked = permission(breaker, breakerContext(engine));
  if (breaker.kind === "closed" || asked === "call") return null;
  if (asked === "probe" && claiming < engine.settings.current.safety.breaker.probes) return null;
  refreshIfOld(engine);
  return asked === "probe" ? PROBE_IN_PROGRESS : describeBreaker(breaker);
}

/** Another process changed the breaker. */
export function breakerChanged(engine: Needs<"world" | "tasks" | "safety">): void {
  engine.safety.breakerRead.forget();
  refreshIfOld(engine);
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
    if (probe !== null) inBackground(engine, updateShared(engine, { kind: "released", probe }));
    throw error;
  }
  if (checked.kind === "unavailable") {
    await recordKernelFailure(engine, probe, checked.reason);
  } else if (probe !== null) {
    // The decision does not wait for this write; if it fails, the probe expires.
    inBackground(engine, updateShared(engine, { kind: "succeeded", probe }));
  } else if (engine.safety.breaker.kind === "closed") {
    engine.safety.breaker = CLOSED;
  }
  return checked;
}

async function claimProbe(engine: Needs<"world" | "settings" | "commit" | "audit" | "safety">): Promise<string | null> {
  const probe = engine.world.random.id();
  engine.safety.claiming++;
  try {
    const after = await updateShared(engine, { kind: "claimed", probe });
    const isOurs = after.kind === "half_open" && after.probes.some(({ id }) => id === probe);
    return isOurs ? probe : null;
  } finally {
    engine.safety.claiming--;
  }
}

async function recordKernelFailure(
  engine: Needs<"world" | "settings" | "commit" | "audit" | "safety">,
  probe: string | null,
  reason: string,
): Promise<void> {
  const { safety } = engine;
  if (probe !== null) {
    await updateShared(engine, { kind: "failed", probe, reason });
    return;
  }
  if (safety.breaker.kind !== "closed") return;
  const next = stepBreaker(safety.breaker, { kind: "failed", probe, reason }, breakerContext(engine));
  if (next.kind === "closed") {
    safety.breaker = next;
    await refresh(engine); // Another process may have opened it already.
  } else if (!safety.opening) {
    safety.opening = true;
    try {
      await updateShared(engine, { kind: "failed", probe, reason });
    } finally {
      safety.opening = false;
    }
  }
}

/** Load, decide, commit of the shared breaker. */
function updateShared(
  engine: Needs<"world" | "settings" | "commit" | "audit" | "safety">,
  event: BreakerEvent,
): Promise<Breaker> {
  return retryOnConflict("the safety breaker", async () => {
    const { breakerCopies } = engine.safety;
    const found = await engine.world.store.load(BREAKERS, SAFETY_BREAKER);
    const before = withLocalFailures(engine, found?.value ?? CLOSED);
    const after = stepBreaker(before, event, breakerContext(engine));
    if (after === before || (after.kind === "closed" && before.kind === "closed")) {
      applyCopy(engine, after, found?.version ?? 0, breakerCopies);
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
    applyCopy(engine, after, (found?.version ?? 0) + 1, breakerCopies);
    if (isNews) announce(engine, after);
    return after;
  });
}

/** A closed breaker in the store lacks the failures counted in this process. */
function withLocalFailures(engine: Needs<"safety">, stored: Breaker): Breaker {
  return stored.kind === "closed" && engine.safety.breaker.kind === "closed" ? engine.safety.breaker : stored;
}

/** `copies`: the number of copies when the read began. */
function applyCopy(engine: Needs<"world" | "safety">, breaker: Breaker, version: number, copies: number): void {
  const { safety, world } = engine;
  // A slow read may be older than the current copy. If nothing changed meanwhile, the store was restored.
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

function refresh(engine: Needs<"world" | "safety">): Promise<void> {
  return engine.safety.breakerRead.run(engine.world.clock.now(), async () => {
    const { breakerCopies } = engine.safety;
    const found = await engine.world.store.load(BREAKERS, SAFETY_BREAKER);
    applyCopy(engine, withLocalFailures(engine, found?.value ?? CLOSED), found?.version ?? 0, breakerCopies);
  });
}

/** Rate-limited and in the background. */
function refreshIfOld(engine: Needs<"world" | "tasks" | "safety">): void {
  const { breakerRead } = engine.safety;
  if (breakerRead.isUnderWay || !breakerRead.isOlderThan(REFRESH_MS, engine.world.clock.now())) return;
  inBackground(engine, refresh(engine));
}

function inBackground(engine: Needs<"world" | "tasks">, work: Promise<unknown>): void {
  const logged = work.catch((error: unknown) => {
    engine.world.log.write("warn", "safety_breaker_write_failed", { error: String(error) });
  });
  engine.tasks.track(logged);
}

function breakerContext(engine: Needs<"world" | "settings">): BreakerContext {
  const { nowMs, settings, random } = decisionContext(engine, NO_UNIT);
  const { breaker, timeoutMs } = settings.safety;
  return { nowMs, random, rule: { ...breaker, probeMs: 2 * timeoutMs + PROBE_SLACK_MS } };
}

function describeBreaker(breaker: Exclude<Breaker, { kind: "closed" }>): string {
  return `circuit breaker ${breaker.kind === "open" ? "open" : "half open"} (${breaker.reason})`;
}

const PROBE_IN_PROGRESS = "circuit breaker half open; a probe is in progress";
const REFRESH_MS = 1_000;
const PROBE_SLACK_MS = 1_000;
