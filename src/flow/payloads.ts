import type { Job, Payload } from "../model/job.ts";
import { childrenOf, JOBS } from "../model/job.ts";
import { BLOB_BYTES_MAX } from "../ports/blobs.ts";
import type { Missing, Values, Wanted } from "../workflow/values.ts";
import type { Flow } from "./flow.ts";

/** Values that travel with jobs and runs: on the record while they are small, else in the blob store. */
export async function storeValue(
  flow: Flow,
  value: unknown,
  ptr: string,
  untilMs: number,
  inlineBytesMax = flow.settings.current.limits.inlineBytesMax,
): Promise<Payload | TooLarge> {
  const text = JSON.stringify(value ?? null);
  // A character has at most three bytes: most values are known to be small without being encoded.
  if (text.length * 3 <= inlineBytesMax) return { kind: "inline", value: value ?? null };
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= inlineBytesMax) return { kind: "inline", value: value ?? null };
  if (bytes.length > BLOB_BYTES_MAX) return { kind: "too_large", bytes: bytes.length, max: BLOB_BYTES_MAX };
  await flow.world.blobs.put(ptr, bytes, untilMs);
  return { kind: "pointer", ptr, bytes: bytes.length };
}

export interface TooLarge {
  readonly kind: "too_large";
  readonly bytes: number;
  readonly max: number;
}

export interface ValueSource {
  readonly runId: string;
  /** Jobs as they will be when the decision is written, by their ids. */
  readonly fresh: ReadonlyMap<string, Job>;
}

/**
 * Calls a decision again and again until it has every value that it asks for. What it asks for is bounded by what a run
 * can point at.
 */
export async function withValues<T>(
  flow: Flow,
  source: ValueSource,
  values: Values,
  decide: (values: Values) => T,
): Promise<T> {
  for (let loads = 0; loads < LOADS_MAX; loads++) {
    try {
      return decide(values);
    } catch (error) {
      const { what } = asMissing(error);
      await load(flow, source, values, what);
    }
  }
  throw new Error(`run \`${source.runId}\` needs more than ${LOADS_MAX} values at once`);
}

function asMissing(error: unknown): Missing {
  if (error instanceof Error && error.name === "Missing") return error as Missing;
  throw error;
}

async function load(flow: Flow, { runId, fresh }: ValueSource, values: Values, what: Wanted): Promise<void> {
  switch (what.kind) {
    case "pointer":
      values.addPointed(what.payload.ptr, await pointedValue(flow, what.payload.ptr));
      return;
    case "children":
      values.addChildren(what.stepId, await childOutputs(flow, runId, what, fresh));
      return;
    default:
      what satisfies never;
  }
}

/** A value that has gone is null: whoever needs it says so in its own words. */
export async function pointedValue(flow: Flow, ptr: string): Promise<unknown> {
  const known = flow.runs.recallValue(ptr);
  if (known !== undefined) return known;
  const bytes = await flow.world.blobs.get(ptr);
  if (bytes === null) return null;
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    flow.runs.rememberValue(ptr, value, bytes.length);
    return value;
  } catch {
    return null;
  }
}

/** One output for each child, in order; null for those that have none. What is `fresh` is newer than the store. */
export async function childOutputs(
  flow: Flow,
  runId: string,
  { stepId, count }: { readonly stepId: string; readonly count: number },
  fresh: ReadonlyMap<string, Job> = new Map(),
): Promise<readonly unknown[]> {
  // A child whose input could not be made has no job: it has no output either.
  const outputs = new Array<unknown>(count).fill(null);
  for (let cursor: string | undefined, page = 0; page < PAGES_MAX; page++) {
    const { items, cursor: next } = await flow.world.store.list(JOBS, {
      index: childrenOf(runId, stepId),
      limit: PAGE,
      order: "oldest",
      ...(cursor === undefined ? {} : { cursor }),
    });
    for (const { value } of items) outputs[value.step?.index ?? 0] = await outputOf(flow, value);
    if (next === null) break;
    cursor = next;
  }
  for (const job of fresh.values()) {
    const { step } = job;
    if (step?.stepId === stepId && step.index !== undefined) outputs[step.index] = await outputOf(flow, job);
  }
  return outputs;
}

async function outputOf(flow: Flow, { state, output }: Job): Promise<unknown> {
  if (state !== "SUCCEEDED" || output === null) return null;
  return output.kind === "inline" ? output.value : pointedValue(flow, output.ptr);
}

const LOADS_MAX = 1_000;
const PAGE = 500;
const PAGES_MAX = 100;
