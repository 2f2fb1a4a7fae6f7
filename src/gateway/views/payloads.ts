/** Payloads of records, loaded from the blob store where they are not inline. */
import type { Job, Payload } from "../../core/model/job.ts";
import { payloadFaultText, payloadValue } from "../../core/model/payload.ts";
import { redact } from "../../core/model/redact.ts";
import { type Run, stepJobId } from "../../core/model/run.ts";
import type { Engine } from "../../engine/engine.ts";
import { readPayload } from "../../engine/payloads.ts";
import { outputKey } from "../../protocol/pointer.ts";

/** The value of a payload; `problem` if the stored bytes are missing or damaged. `what` names it, as in "the input of …". */
export async function readValue(
  engine: Pick<Engine, "world">,
  what: string,
  payload: Payload | null,
): Promise<ReadValue> {
  if (payload === null) return { value: null };
  if (payload.kind === "inline") return { value: payload.value };
  const read = await readPayload(engine, payload);
  return typeof read === "string"
    ? { value: null, problem: payloadFaultText(what, read) }
    : { value: payloadValue(read) };
}

export interface Problematic {
  readonly problem?: string;
}

export interface ReadValue extends Problematic {
  readonly value: unknown;
}

export function problemsView(read: readonly Problematic[]): { readonly payload_problems?: readonly string[] } {
  const problems = read.flatMap(({ problem }) => problem ?? []);
  return problems.length === 0 ? {} : { payload_problems: problems };
}

export interface PayloadView extends Problematic {
  readonly value: unknown;
  /** The path to read it from when it is omitted here; else null. */
  readonly at: string | null;
}

/** Redacted outputs by step id. At most `SHOWN_BYTES_MAX` are read from the blob store for one response, in step order. */
export async function outputsOf(engine: Engine, run: Run): Promise<ReadonlyMap<string, PayloadView>> {
  const remaining = { bytes: SHOWN_BYTES_MAX };
  const { paths } = engine.settings.current.redaction;
  const outputs = new Map<string, PayloadView>();
  for (const [stepId, { output, jobId }] of Object.entries(run.steps)) {
    if (output === undefined) continue;
    if (output.kind === "children") {
      outputs.set(stepId, { value: null, at: `/api/v1/workflow-runs/${run.id}/steps/${stepId}/children` });
      continue;
    }
    const read = await readWithin(engine, `the output of step \`${stepId}\``, output, remaining);
    if (read) outputs.set(stepId, { ...read, value: redact(read.value, { paths, at: "output" }), at: null });
    else outputs.set(stepId, { value: null, at: memoryPath(outputKey(jobId ?? stepJobId(run.id, stepId, null))) });
  }
  return outputs;
}

/** Redacted results of a page of `for_each` children; null for those over the size limit. */
export async function resultsOf(engine: Engine, jobs: readonly Job[]): Promise<readonly ReadValue[]> {
  const remaining = { bytes: SHOWN_BYTES_MAX };
  const { paths } = engine.settings.current.redaction;
  const results: ReadValue[] = [];
  for (const { id, output } of jobs) {
    const read = output && (await readWithin(engine, `the result of job \`${id}\``, output, remaining));
    results.push(read ? { ...read, value: redact(read.value, { paths, at: "result" }) } : { value: null });
  }
  return results;
}

const memoryPath = (name: string): string => `/api/v1/memory?ptr=${encodeURIComponent(name)}`;

/** Inline payloads are free: their record is already loaded. Others are read one at a time until the limit is reached. */
async function readWithin(
  engine: Engine,
  what: string,
  payload: Payload,
  remaining: { bytes: number },
): Promise<ReadValue | null> {
  if (payload.kind === "inline") return { value: payload.value };
  if (remaining.bytes <= 0 || payload.bytes > remaining.bytes) return null;
  const read = await readValue(engine, what, payload);
  // Records of earlier versions may not have the size.
  remaining.bytes -= payload.bytes || JSON.stringify(read.value).length;
  return remaining.bytes < 0 ? null : read;
}

const SHOWN_BYTES_MAX = 1024 * 1024;
