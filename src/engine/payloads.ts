import type { StepBudget } from "../core/expression/budget.ts";
import { jobHashOf } from "../core/jobs/approval.ts";
import type { Job, Payload } from "../core/model/job.ts";
import { childrenOf, JOBS } from "../core/model/job.ts";
import { fitsWithin } from "../core/model/json.ts";
import {
  type PayloadFault,
  type PayloadOwner,
  payloadFaultText,
  payloadKey,
  payloadValue,
  type StoredPayload,
  sha256Of,
} from "../core/model/payload.ts";
import { RUN_VALUE_BYTES_MAX, RUNS, type Run, stepJobId } from "../core/model/run.ts";
import { permanent } from "../core/retry/intent.ts";
import type { Plan } from "../core/workflow/definition/plan.ts";
import {
  type Loaded,
  type Missing,
  type MissingValue,
  READ_BYTES_MAX,
  type Values,
} from "../core/workflow/run/values.ts";
import { BLOB_BYTES_MAX } from "../ports/blobs.ts";
import type { World } from "../ports/world.ts";
import type { Needs } from "./engine.ts";

/** Values of jobs and runs: inline on the record while small, otherwise in the blob store (`core/model/payload.ts`). */
export function storeValue(
  engine: Needs<"world" | "settings">,
  value: unknown,
  place: (bytes: number) => Place | Promise<Place>,
  inlineBytesMax = engine.settings.current.limits.inlineBytesMax,
): Payload | TooLarge | Promise<Payload | TooLarge> {
  if (fitsWithin(value, inlineBytesMax)) return { kind: "inline", value: value ?? null };
  const bytes = new TextEncoder().encode(JSON.stringify(value ?? null));
  if (bytes.length <= inlineBytesMax) return { kind: "inline", value: value ?? null };
  return storeBytes(engine, bytes, place);
}

export async function storeBytes(
  engine: Needs<"world">,
  bytes: Uint8Array,
  place: (bytes: number) => Place | Promise<Place>,
): Promise<StoredPayload | TooLarge> {
  if (bytes.length > BLOB_BYTES_MAX) return { kind: "too_large", bytes: bytes.length, max: BLOB_BYTES_MAX };
  const { owner, untilMs } = await place(bytes.length);
  const sha256 = sha256Of(bytes);
  const ptr = payloadKey(owner, sha256);
  await engine.world.blobs.put(ptr, bytes, untilMs);
  return { kind: "pointer", ptr, bytes: bytes.length, sha256 };
}

/** The bytes of a stored payload, with the recorded digest. Records of earlier versions have none. */
export async function readPayload(
  { world }: { readonly world: Pick<World, "blobs"> },
  { ptr, sha256 }: StoredPayload,
): Promise<Uint8Array | PayloadFault> {
  const bytes = await world.blobs.get(ptr);
  if (bytes === null) return "missing";
  return sha256 === undefined || sha256Of(bytes) === sha256 ? bytes : "damaged";
}

/** The input of a job as it was when the policy and the approver decided, with its bytes if it is stored. */
export async function readInput(
  engine: Needs<"world">,
  job: Job,
): Promise<{ readonly bytes: Uint8Array | null } | { readonly problem: string }> {
  const { id, input, approval } = job;
  if (approval?.decidedMs !== undefined && approval.jobHash !== jobHashOf(job))
    return { problem: `job \`${id}\` is not the job that was approved; submit it again` };
  if (input.kind === "inline") return { bytes: null };
  const read = await readPayload(engine, input);
  if (typeof read !== "string") return { bytes: read };
  return { problem: `${payloadFaultText(`the input of job \`${id}\``, read)}; submit the job again` };
}

/**
 * Bytes that a client or worker stored under its own name. `other_type`: the store refuses to read them, because the key holds
 * a list or a hash; a retry cannot succeed.
 */
export async function readSent({ world }: Needs<"world">, key: string): Promise<Uint8Array | "other_type" | null> {
  try {
    return await world.blobs.get(key);
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === "STORE_REFUSED") return "other_type";
    throw error;
  }
}

/** Extends the retention of a stored payload; false if it is gone. */
export async function keepPayload(engine: Needs<"world">, payload: StoredPayload, untilMs: number): Promise<boolean> {
  const read = await readPayload(engine, payload);
  if (typeof read === "string") return false;
  await engine.world.blobs.put(payload.ptr, read, untilMs);
  return true;
}

/** For values from clients and workers: an oversized one is a permanent error. */
export function storeSent(
  engine: Needs<"world" | "settings">,
  what: string,
  value: unknown,
  place: (bytes: number) => Place | Promise<Place>,
): Payload | Promise<Payload> {
  const accept = (kept: Payload | TooLarge): Payload => {
    if (kept.kind === "too_large") throw permanent(new Error(tooLargeText(what, kept)));
    return kept;
  };
  const kept = storeValue(engine, value, place);
  return kept instanceof Promise ? kept.then(accept) : accept(kept);
}

/**
 * Stores a value of a run that is being created. It is inline only if small, because it is written with every commit of
 * the run. A stored value enters the cache, so the first steps need no load.
 */
export function storeForRun(
  engine: Needs<"world" | "settings" | "runCache">,
  value: unknown,
  place: Place,
  roomBytes = engine.settings.current.limits.inlineBytesMax,
): Payload | TooLarge | Promise<Payload | TooLarge> {
  const stored = storeValue(engine, value, () => place, Math.min(RUN_VALUE_BYTES_MAX, roomBytes));
  if (!(stored instanceof Promise)) return stored;
  return stored.then((kept) => {
    if (kept.kind === "pointer") engine.runCache.rememberValue(kept.ptr, { value: value ?? null, bytes: kept.bytes });
    return kept;
  });
}

export const tooLargeText = (what: string, { bytes, max }: TooLarge): string =>
  `the ${what} has ${bytes} bytes; the limit is ${max} bytes`;

/** Owner and retention of a stored value. */
export interface Place {
  readonly owner: PayloadOwner;
  readonly untilMs: number;
}

export const ownedByJob = ({ org, id }: Pick<Job, "org" | "id">): PayloadOwner => ({ org, kind: "job", id });
export const ownedByRun = ({ org, id }: Pick<Run, "org" | "id">): PayloadOwner => ({ org, kind: "run", id });

/** Retention of values that belong to a step: longer than the run can be read. */
export async function keptUntilMs(engine: Needs<"world" | "settings">, runId: string): Promise<number> {
  const { run: limits, retention } = engine.settings.current;
  const run = await engine.world.store.load(RUNS, runId);
  const endMs = Math.max(run?.value.deadlineMs ?? 0, engine.world.clock.now() + limits.deadlineMs);
  return endMs + 2 * retention.runsMs;
}

export interface TooLarge {
  readonly kind: "too_large";
  readonly bytes: number;
  readonly max: number;
}

export interface ValueSource {
  readonly runId: string;
  readonly plan: Plan;
  /** Jobs as they will be after the commit, by id. */
  readonly fresh: ReadonlyMap<string, Job>;
  /** Of the request: a list has thousands of outputs, and each is validated. */
  readonly budget: StepBudget;
}

/** Repeats a decision until every value it asks for is loaded. The number of loads is bounded. */
export function withValues<T>(
  engine: Needs<"world" | "runCache">,
  source: ValueSource,
  values: Values,
  decide: (values: Values) => T,
  loadsMax = LOADS_MAX,
): T | Promise<T> {
  try {
    return decide(values);
  } catch (error) {
    const { what } = asMissing(error);
    if (loadsMax === 0) throw new Error(`run \`${source.runId}\` needs more than ${LOADS_MAX} payload values`);
    return load(engine, source, values, what).then(() => withValues(engine, source, values, decide, loadsMax - 1));
  }
}

function asMissing(error: unknown): Missing {
  if (error instanceof Error && error.name === "Missing") return error as Missing;
  throw error;
}

async function load(
  engine: Needs<"world" | "runCache">,
  source: ValueSource,
  values: Values,
  what: MissingValue,
): Promise<void> {
  switch (what.kind) {
    case "pointer":
      values.addBlob(what.payload.ptr, await loadPointed(engine, source.runId, what.payload));
      return;
    case "children":
      values.addChildren(what.stepId, await childOutputs(engine, source, what), what.iteration);
      return;
    case "child":
      await loadChildren(engine, source, values, what);
      return;
    default:
      what satisfies never;
  }
}

/** The child and some before it: compensations go through the children from the last to the first. */
async function loadChildren(
  engine: Needs<"world">,
  { runId, fresh }: ValueSource,
  values: Values,
  { stepId, index }: Extract<MissingValue, { kind: "child" }>,
): Promise<void> {
  const indexes = Array.from({ length: Math.min(index + 1, CHILDREN_READ) }, (_, before) => index - before);
  await Promise.all(
    indexes.map(async (at) => {
      const id = stepJobId(runId, stepId, at);
      const job = fresh.get(id) ?? (await engine.world.store.load(JOBS, id))?.value;
      values.addChild(stepId, at, job?.state === "SUCCEEDED" ? { output: job.output } : null);
    }),
  );
}

/** The value of a payload of the run, or what is wrong with it. */
export async function valueIn(
  engine: Needs<"world" | "runCache">,
  runId: string,
  payload: Payload,
): Promise<Pick<Loaded, "value" | "problem">> {
  return payload.kind === "inline" ? { value: payload.value } : loadPointed(engine, runId, payload);
}

async function loadPointed(
  engine: Needs<"world" | "runCache">,
  runId: string,
  payload: StoredPayload,
): Promise<Loaded> {
  const known = engine.runCache.recallValue(payload.ptr);
  if (known) return known;
  const read = await readPayload(engine, payload);
  if (typeof read === "string")
    return { value: null, bytes: 0, problem: payloadFaultText(`a payload of run \`${runId}\``, read) };
  const loaded = { value: payloadValue(read), bytes: read.length };
  engine.runCache.rememberValue(payload.ptr, loaded);
  return loaded;
}

/**
 * Outputs of all children in order; null for failed children and outputs that violate the step's schema. `fresh`
 * overrides the store. Null if the outputs exceed the read limit, or with a problem if one is lost or the budget is spent.
 */
export async function childOutputs(
  engine: Needs<"world" | "runCache">,
  { runId, plan, fresh, budget }: ValueSource,
  { stepId, count, iteration }: Omit<Extract<MissingValue, { kind: "children" }>, "kind">,
): Promise<Loaded<readonly unknown[] | null>> {
  // A child whose input could not be created has no job and no output.
  const outputs = new Array<unknown>(count).fill(null);
  const schema = plan.steps.get(stepId)?.outputSchema;
  let bytes = 0;
  let problem: string | undefined;
  const take = async (job: Job): Promise<void> => {
    const read = await outputOf(engine, runId, job);
    problem ??= read.problem;
    const { value } = read;
    const problems = value === null ? [] : plan.within(budget, () => schema?.problemsOf(value) ?? []);
    // A validation that was cut off is no reason to drop the output.
    if (budget.left === 0) problem ??= budget.fault;
    const isFit = value !== null && problems.length === 0;
    outputs[job.step?.index ?? 0] = isFit ? value : null;
    if (isFit) bytes += (job.output?.kind === "pointer" && job.output.bytes) || JSON.stringify(value).length;
  };
  for (let cursor: string | undefined, page = 0; page < PAGES_MAX; page++) {
    const { items, cursor: next } = await engine.world.store.list(JOBS, {
      index: childrenOf(runId, stepId, iteration),
      limit: PAGE,
      order: "oldest",
      ...(cursor === undefined ? {} : { cursor }),
    });
    for (const { id, value } of items) {
      if (!fresh.has(id)) await take(value);
      if (problem !== undefined) return { value: null, bytes: 0, problem };
      if (bytes > READ_BYTES_MAX) return TOO_LARGE;
    }
    if (next === null) break;
    cursor = next;
  }
  for (const job of fresh.values()) {
    const { step } = job;
    const isOurs = step?.stepId === stepId && step.iteration === iteration && !step.isCompensation;
    if (isOurs && step.index !== undefined) await take(job);
    if (bytes > READ_BYTES_MAX) return TOO_LARGE;
  }
  return problem === undefined ? { value: outputs, bytes } : { value: null, bytes: 0, problem };
}

async function outputOf(
  engine: Needs<"world" | "runCache">,
  runId: string,
  { state, output }: Job,
): Promise<Pick<Loaded, "value" | "problem">> {
  return state !== "SUCCEEDED" || output === null ? { value: null } : valueIn(engine, runId, output);
}

const TOO_LARGE = { value: null, bytes: 0 };
const LOADS_MAX = 1_000;
const CHILDREN_READ = 16;
const PAGE = 500;
const PAGES_MAX = 100;
