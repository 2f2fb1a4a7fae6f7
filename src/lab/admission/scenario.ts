/** The settings, workflows and figures of `cordum lab admission`, for simulated and live cells. */
import { settingsFrom } from "../../config/config.ts";
import { RUNS_GROUP } from "../../core/model/run.ts";
import { parsePolicy } from "../../core/retry/policies.ts";
import type { Settings } from "../../core/settings.ts";
import type { Engine } from "../../engine/engine.ts";
import { admissionLockOf } from "../../engine/intake/index.ts";
import { applyWorkflow } from "../../engine/runs/index.ts";
import type { Change } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import { withLocks, withStore } from "../../sim/mutants/decorators.ts";
import type { Row } from "../experiment.ts";
import { ascending, binned, maxOf, mean, percentiles, sampled } from "../statistics.ts";
import { type Caller, type Client, ORG, OTHER_ORG, type Response, WORKFLOWS } from "./clients.ts";
import type { Cell, ClientName } from "./experiment.ts";

/** Open runs of the busy org. */
export const LIMIT = 2;

export const CLIENTS: Readonly<Record<ClientName, Client>> = {
  none: { kind: "none" },
  fixed: { kind: "policy", policy: parsePolicy("fixed:1s") },
  jittered: { kind: "policy", policy: parsePolicy("full:250ms:4s") },
  retry_after: { kind: "retry_after" },
};

export function settingsOf({ policy, maxWaitMs }: Pick<Cell, "policy" | "maxWaitMs">): Settings {
  const polled = { "admission.strategy": "polled", "admission.polled.policy": policy } as const;
  const settings = settingsFrom({
    "limits.max_concurrent_runs": LIMIT,
    "admission.polled.max_wait_ms": maxWaitMs,
    // Its commits would be part of the measurement.
    "contention.record": "off",
    ...(policy === "atomic" ? { "admission.strategy": "atomic" } : polled),
  });
  return { ...settings, orgs: { [OTHER_ORG]: { limits: { concurrentRunsMax: 1_000_000 } } } };
}

/** A workflow that holds its slot for the busy org, and one that completes at once for the other. */
export async function applyWorkflows(engine: Engine, holdMs: number): Promise<void> {
  const hold = { id: WORKFLOWS.hold, steps: { hold: { type: "delay", delay_sec: holdMs / 1_000 } } };
  const pass = { id: WORKFLOWS.pass, steps: { pass: { type: "transform", input: "done" } } };
  for (const [org, document] of [
    [ORG, hold],
    [OTHER_ORG, pass],
  ] as const) {
    const applied = await applyWorkflow(engine, { org, by: "lab", document });
    if (applied.kind === "invalid") throw new Error(applied.problems.join("; "));
  }
}

/** Calls back for every attempt to get the org's admission lock or, with `atomic`, its slot. */
export function observeAttempts(world: World, settings: Settings, onAttempt: () => void): World {
  const isPolled = settings.admission.strategy === "polled";
  const locks = withLocks((inner) => ({
    acquire: (request) => {
      if (isPolled && request.key === LOCK_KEY) onAttempt();
      return inner.acquire(request);
    },
  }));
  const store = withStore((inner) => ({
    commit: (change) => {
      if (!isPolled && takesSlot(change)) onAttempt();
      return inner.commit(change);
    },
  }));
  return locks(store(world));
}

function takesSlot({ guards }: Change): boolean {
  return guards.some(
    (guard) => guard.kind === "counter" && guard.counter.group === RUNS_GROUP && guard.counter.name === ORG,
  );
}

const LOCK_KEY = admissionLockOf(ORG);

export interface AdmissionHistory {
  readonly callers: readonly Caller[];
  /** Responses to the other org. */
  readonly other: readonly Response[];
  /** Times of the attempts to get the org's admission lock or slot. */
  readonly attemptsMs: readonly number[];
  readonly fromMs: number;
  readonly openMax: number;
}

/** Throws when more runs were open than the limit allows: the figures of such a history are void. */
export function checkLimit(openMax: number): void {
  if (openMax > LIMIT) throw new Error(`${openMax} runs were open at a limit of ${LIMIT}`);
}

/** `alone`: response times of the other org without the burst. */
export function measure(cell: Cell, history: AdmissionHistory, alone: readonly number[]): Omit<Row, "key"> {
  const { callers, other, fromMs } = history;
  const { contenders, holdMs, binMs } = cell;
  const responses = callers.flatMap((caller) => caller.responses);
  const waitsMs = callers.flatMap(({ waitedMs }) => (waitedMs === null ? [] : [waitedMs]));
  const count = (status: number): number => responses.filter((response) => response.status === status).length;
  const share = (status: number): number => (100 * count(status)) / responses.length;
  const arrivals = binned(history.attemptsMs, binMs, fromMs);
  const lastMs = maxOf(responses.map(({ sentMs, tookMs }) => sentMs + tookMs)) - fromMs;
  const requestsMs = responses.map(({ tookMs }) => tookMs);
  return {
    figures: {
      admitted: waitsMs.length,
      admitted_share: (100 * waitsMs.length) / contenders,
      admitted_max_concurrent: history.openMax,
      status: { "200": count(200), "429": count(429), "503": count(503) },
      share: { "200": share(200), "429": share(429), "503": share(503) },
      request_ms: percentiles(requestsMs),
      wait_ms: percentiles(waitsMs),
      wait_ms_max: waitsMs.length === 0 ? null : maxOf(waitsMs),
      requests_per_caller: responses.length / contenders,
      // Use of the slots until the last response.
      slots_used_share: Math.min(100, (100 * waitsMs.length * holdMs) / (LIMIT * Math.max(lastMs, holdMs))),
      asks: history.attemptsMs.length,
      arrivals: { bin_ms: binMs, peak: maxOf(arrivals), mean: mean(arrivals) },
      other_ms: percentiles(other.map(({ tookMs }) => tookMs)),
      other_503: other.filter(({ status }) => status === 503).length,
      other_alone_ms: percentiles(alone),
    },
    series: { arrivals, requests_ms: sampled(requestsMs), waits_ms: ascending(waitsMs) },
  };
}
