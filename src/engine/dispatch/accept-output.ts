import type { Job, Payload } from "../../core/model/job.ts";
import { fitsWithin } from "../../core/model/json.ts";
import { bytesOf } from "../../core/workflow/run/run-draft.ts";
import { BLOB_BYTES_MAX } from "../../ports/blobs.ts";
import type { JobResult } from "../../protocol/packet.ts";
import { isAttemptOutput, keyIn, outputKey, ownKeyIn } from "../../protocol/pointer.ts";
import type { Needs } from "../engine.ts";
import {
  keptUntilMs,
  ownedByJob,
  type Place,
  readSent,
  storeBytes,
  storeValue,
  type TooLarge,
  tooLargeText,
} from "../payloads.ts";

/**
 * The output of a finished attempt.
 *
 * 1. A worker may point only at its own job's result. The bytes are copied once, with their digest; the worker's key is
 *    not read again.
 * 2. A refused output ends the job as FAILED: the work was done, so it is not repeated.
 */
export type AcceptedOutput =
  | { readonly kind: "accepted"; readonly output: Payload | null }
  | { readonly kind: "refused"; readonly why: string };

/** Deletes the key of one attempt's output, which only this result names. Other keys expire. */
export function discardOutput(engine: Needs<"world" | "tasks">, { jobId, resultPtr = "" }: JobResult): void {
  const key = ownKeyIn(resultPtr, "res", jobId);
  if (key === null || !isAttemptOutput(key)) return;
  engine.tasks.track(engine.world.blobs.delete(key).catch(() => undefined));
}

/** The output that a worker reports on the bus. */
export function acceptResult(
  engine: Needs<"world" | "settings">,
  job: Job,
  result: JobResult,
): AcceptedOutput | Promise<AcceptedOutput> {
  if (result.status !== "succeeded") return NONE;
  const { artifactPtrs = [], resultPtr } = result;
  if (artifactPtrs.length === 0 || artifactBytesMaxOf(job) === null) return acceptOutput(engine, job, result, 0);
  return artifactBytesOf(engine, job, artifactPtrs, resultPtr).then((bytes) => {
    const why = sizeProblem(job, bytes);
    return why === null ? acceptOutput(engine, job, result, bytes) : refused(why);
  });
}

/** Artifacts are measured as far as they resolve: those that the worker stored under the job's own names. */
async function artifactBytesOf(
  engine: Needs<"world">,
  job: Job,
  pointers: readonly string[],
  resultPtr: string | undefined,
): Promise<number> {
  let bytes = 0;
  for (const pointer of new Set(pointers)) {
    const key = pointer === resultPtr ? null : ownKeyIn(pointer, "res", job.id);
    const value = key === null ? null : await readSent(engine, key);
    if (value !== null && value !== "other_type") bytes += value.length;
    if (sizeProblem(job, bytes) !== null) break;
  }
  return bytes;
}

/** `artifactBytes` count towards the limit of the policy. */
function acceptOutput(
  engine: Needs<"world" | "settings">,
  job: Job,
  result: JobResult,
  artifactBytes: number,
): AcceptedOutput | Promise<AcceptedOutput> {
  if (result.output !== undefined) {
    const why = inlineProblem(engine, job, result.output, artifactBytes);
    return why === null ? { kind: "accepted", output: { kind: "inline", value: result.output } } : refused(why);
  }
  return result.resultPtr ? copyOutput(engine, job, result.resultPtr, artifactBytes) : NONE;
}

/** The output that a worker sends over HTTP. */
export async function acceptValue(
  engine: Needs<"world" | "settings">,
  job: Job,
  value: unknown,
  artifactPtrs: readonly string[] = [],
): Promise<AcceptedOutput> {
  const isLimited = artifactBytesMaxOf(job) !== null;
  const artifactBytes = isLimited ? await artifactBytesOf(engine, job, artifactPtrs, undefined) : 0;
  const why = inlineProblem(engine, job, value, artifactBytes);
  if (why !== null) return refused(why);
  return stored(await storeValue(engine, value, () => outputPlace(engine, job)));
}

async function copyOutput(
  engine: Needs<"world" | "settings">,
  job: Job,
  pointer: string,
  artifactBytes: number,
): Promise<AcceptedOutput> {
  const key = ownKeyIn(pointer, "res", job.id);
  if (key === null) {
    const name = outputKey(job.id);
    return refused(`\`${keyIn(pointer).slice(0, NAME_LENGTH_MAX)}\` is not a result of this job; use \`${name}\``);
  }
  const bytes = await readSent(engine, key);
  if (bytes === null) return refused(`there is no value at \`${key}\`; store it before the result is published`);
  if (bytes === "other_type") return refused(`the value at \`${key}\` is not a string`);
  const why = sizeProblem(job, artifactBytes + bytes.length) ?? excessOf(engine, job, bytes.length);
  return why === null ? stored(await storeBytes(engine, bytes, () => outputPlace(engine, job))) : refused(why);
}

const stored = (kept: Payload | TooLarge): AcceptedOutput =>
  kept.kind === "too_large" ? refused(tooLargeText("result", kept)) : { kind: "accepted", output: kept };

const refused = (why: string): AcceptedOutput => ({ kind: "refused", why: `result refused: ${why}` });

/** Measured only if the policy or the step limits the size. */
function inlineProblem(engine: Needs<"settings">, job: Job, value: unknown, artifactBytes: number): string | null {
  if (artifactBytesMaxOf(job) === null) return stepSizeProblem(engine, job, { kind: "inline", value });
  const bytes = bytesOf(JSON.stringify(value ?? null));
  return sizeProblem(job, artifactBytes + bytes) ?? excessOf(engine, job, bytes);
}

/** Why the output of a step is too large; null if it is not. */
export function stepSizeProblem(engine: Needs<"settings">, job: Job, output: Payload): string | null {
  if (output.kind === "pointer") return excessOf(engine, job, output.bytes);
  // No inline value has the size of a blob.
  const max = outputBytesMaxOf(engine, job);
  if (max >= BLOB_BYTES_MAX || fitsWithin(output.value, max)) return null;
  return excessOf(engine, job, bytesOf(JSON.stringify(output.value ?? null)));
}

function excessOf(engine: Needs<"settings">, job: Job, bytes: number): string | null {
  const max = outputBytesMaxOf(engine, job);
  if (bytes <= max) return null;
  const origin = job.step?.outputBytesMax === undefined ? "`limits.step_output_bytes_max`" : "`max_output_bytes`";
  return `it has ${bytes} bytes; ${origin} of step \`${job.step?.stepId}\` is ${max}`;
}

/** The limit of the definition, else of the settings. Infinite for jobs without a step, and for compensations. */
function outputBytesMaxOf({ settings }: Needs<"settings">, { step }: Job): number {
  if (step === undefined || step.isCompensation) return Number.POSITIVE_INFINITY;
  return step.outputBytesMax ?? settings.current.limits.outputBytesMax;
}

function sizeProblem(job: Job, bytes: number): string | null {
  const max = artifactBytesMaxOf(job);
  if (max === null || bytes <= max) return null;
  return `it has ${bytes} bytes; \`max_artifact_bytes\` of rule \`${job.safety?.ruleId}\` is ${max}`;
}

const artifactBytesMaxOf = ({ safety }: Job): number | null => safety?.constraints?.budgets?.maxArtifactBytes ?? null;

/** The output of a step is kept as long as its run, which may be read or rerun after the job ended. */
async function outputPlace(engine: Needs<"world" | "settings">, job: Job): Promise<Place> {
  const { job: limits, retention } = engine.settings.current;
  const untilMs = job.step
    ? await keptUntilMs(engine, job.step.runId)
    : engine.world.clock.now() + limits.deadlineMs + retention.jobsMs;
  return { owner: ownedByJob(job), untilMs };
}

const NONE: AcceptedOutput = { kind: "accepted", output: null };
const NAME_LENGTH_MAX = 100;
