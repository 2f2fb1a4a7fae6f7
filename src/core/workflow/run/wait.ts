import type { Payload } from "../../model/job.ts";
import { sha256Of } from "../../model/payload.ts";
import type { KeptEvent, StepRun } from "../../model/run.ts";
import type { Writable } from "../../model/table.ts";
import type { Act, PlanStep } from "../definition/plan.ts";
import { bytesOf, type Draft, fault, tooLarge } from "./run-draft.ts";
import { settleStep } from "./settle.ts";
import { failStep, outputFault } from "./start-step.ts";

/**
 * Events of a run and the `wait` steps that take them. A `wait` step has no job.
 *
 * 1. An event is taken by one step: the first running `wait` step in plan order with its name and correlation key.
 * 2. An event that no step takes is kept. A `wait` step that starts takes the oldest kept event that matches.
 * 3. Kept events are bounded by number and size: an event beyond the limit is refused, none is dropped.
 * 4. An event id that the run has seen changes nothing. A refused event does not count as seen.
 */
export interface ReceivedEvent {
  readonly name: string;
  readonly data: unknown;
  readonly key?: string;
  /** Chosen by the sender, to repeat a request safely. */
  readonly id?: string;
  readonly by: string;
}

export type EventAnswer =
  | { readonly kind: "delivered"; readonly stepId: string }
  | { readonly kind: "kept" | "duplicate" }
  /** The run is ending or has ended. */
  | { readonly kind: "ended" }
  | { readonly kind: "full"; readonly why: string };

export function receiveEvent(draft: Draft, event: ReceivedEvent): EventAnswer {
  if (draft.run.state === "ENDING") return { kind: "ended" };
  const { kept = [], bytes: keptBytes = 0, ids = [] } = draft.run.events ?? {};
  if (isSeen(ids, event.id)) return { kind: "duplicate" };
  const step = takerOf(draft, event);
  const bytes = bytesOf(JSON.stringify(event.data ?? null));
  if (step === null) {
    const why = excessOf(kept.length + 1, keptBytes + bytes);
    if (why !== null) return { kind: "full", why };
  }
  const seen = event.id === undefined ? ids : [...ids.slice(1 - EVENT_IDS_MAX), hashOf(event.id)];
  const data = draft.store(event.data);
  const line = draft.addLine("event_received", { stepId: step?.id, who: event.by, why: textOf(event) });
  if (step !== null) {
    if (seen !== ids || draft.run.events) draft.set({ events: { kept, bytes: keptBytes, ids: seen } });
    take(draft, step, data, event.by, line);
    return { kind: "delivered", stepId: step.id };
  }
  const next: Writable<KeptEvent> = { name: event.name, data: data ?? NOTHING, bytes, by: event.by, line };
  if (event.key !== undefined) next.key = event.key;
  draft.set({ events: { kept: [...kept, next], bytes: keptBytes + bytes, ids: seen } });
  return { kind: "kept" };
}

/** `ids`: hashes of the event ids that the run remembers. */
export const isSeen = (ids: readonly string[], id: string | undefined): boolean =>
  id !== undefined && ids.includes(hashOf(id));

const hashOf = (id: string): string => sha256Of(id).slice(0, ID_DIGITS);

export function startWait(draft: Draft, step: PlanStep, act: Wait, cause: number | undefined): void {
  const key = keyOf(draft, step, act);
  if (key.kind === "bad") {
    failStep(draft, step, "ExpressionFailed", `\`correlate\`: ${key.problem}`, cause);
    return;
  }
  const awaits = key.value === null ? { event: act.event } : { event: act.event, key: key.value };
  const line = draft.addLine("step_started", { stepId: step.id, why: textOf({ name: act.event, ...awaits }), cause });
  const due = step.timeoutMs === null ? {} : { dueMs: draft.nowMs + step.timeoutMs };
  draft.setStep(step.id, { state: "RUNNING", startedMs: draft.nowMs, line, awaits, ...due });
  const { kept, bytes, ids } = draft.run.events ?? { kept: [], bytes: 0, ids: [] };
  const early = kept.find((event) => isMatch(awaits, event));
  if (early === undefined) return;
  draft.set({ events: { kept: kept.filter((event) => event !== early), bytes: bytes - early.bytes, ids } });
  take(draft, step, early.data, early.by, early.line);
}

/** Ends the step as TIMEOUT at its deadline. */
export function expireWait(draft: Draft, step: PlanStep, { event }: Wait): void {
  const { state, dueMs } = draft.step(step.id) ?? {};
  if (state !== "RUNNING" || !isExpired(draft, dueMs)) return;
  const message = `no matching event \`${event}\` arrived within ${(step.timeoutMs ?? 0) / 1_000} s`;
  settleStep(draft, step, "TIMEOUT", { error: fault("DeadlineExceeded", message) });
}

function takerOf(draft: Draft, event: ReceivedEvent): PlanStep | null {
  for (const id of draft.plan.order) {
    const { state, awaits, dueMs } = draft.step(id) ?? {};
    const isOpen = state === "RUNNING" && awaits !== undefined && !isExpired(draft, dueMs);
    if (isOpen && isMatch(awaits, event)) return draft.plan.steps.get(id) ?? null;
  }
  return null;
}

function take(draft: Draft, step: PlanStep, data: Payload | null, who: string, cause: number): void {
  if (data === null) {
    settleStep(draft, step, "FAILED", { error: tooLarge("the data of the event"), cause });
    return;
  }
  const read = step.outputSchema ? draft.valueOf(data, step.id) : null;
  const error = read === null ? null : read.kind === "bad" ? read.error : outputFault(step, read.value);
  if (error) settleStep(draft, step, "FAILED", { error, who, cause });
  else settleStep(draft, step, "SUCCEEDED", { output: data, who, cause });
}

function keyOf(draft: Draft, step: PlanStep, { correlate }: Wait): Key {
  if (correlate === null) return { kind: "ok", value: null };
  const rendered = correlate.evaluate(draft.scope(step, correlate.refs));
  if (rendered.kind === "bad") return rendered;
  const { value } = rendered;
  const text = typeof value === "number" || typeof value === "boolean" ? String(value) : value;
  if (typeof text !== "string") return { kind: "bad", problem: "must be a string, a number or a boolean" };
  if (text.length <= EVENT_TEXT_MAX) return { kind: "ok", value: text };
  return { kind: "bad", problem: `has ${text.length} characters; at most ${EVENT_TEXT_MAX} are allowed` };
}

type Key = { readonly kind: "ok"; readonly value: string | null } | { readonly kind: "bad"; readonly problem: string };

function isMatch(awaits: NonNullable<StepRun["awaits"]>, event: Pick<KeptEvent, "name" | "key">): boolean {
  return awaits.event === event.name && (awaits.key === undefined || awaits.key === event.key);
}

function excessOf(count: number, bytes: number): string | null {
  const kept = "events that no step has taken";
  if (count > EVENTS_KEPT_MAX) return `the run keeps ${EVENTS_KEPT_MAX} ${kept}, which is the limit`;
  if (bytes <= EVENTS_KEPT_BYTES_MAX) return null;
  return `the run would keep ${bytes} bytes of ${kept}; the limit is ${EVENTS_KEPT_BYTES_MAX} bytes`;
}

const textOf = ({ name, key }: Pick<ReceivedEvent, "name" | "key">): string =>
  key === undefined ? `event \`${name}\`` : `event \`${name}\`, correlation key \`${key}\``;

const isExpired = ({ nowMs }: Draft, dueMs: number | undefined): boolean => dueMs !== undefined && nowMs >= dueMs;

type Wait = Extract<Act, { type: "wait" }>;

const NOTHING: Payload = { kind: "inline", value: null };
/** Of the JSON of one event's data. */
export const EVENT_BYTES_MAX = 256 * 1024;
/** Events that no step has taken yet, per run. */
export const EVENTS_KEPT_MAX = 100;
export const EVENTS_KEPT_BYTES_MAX = 1024 * 1024;
/** Event ids that a run remembers, newest last. */
export const EVENT_IDS_MAX = 1_000;
/** Characters of a correlation key, and of an event id. */
export const EVENT_TEXT_MAX = 256;
/** Hexadecimal digits of the hash that represents an event id. */
const ID_DIGITS = 16;
