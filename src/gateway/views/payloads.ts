/** Payloads of records, loaded from the blob store where they are not inline. */
import type { Job, Payload } from "../../core/model/job.ts";
import { redact } from "../../core/model/redact.ts";
import type { Run } from "../../core/model/run.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Blobs } from "../../ports/blobs.ts";

/** null without a payload, or when the stored payload has expired. */
export async function payloadValue(blobs: Blobs, payload: Payload | null): Promise<unknown> {
  if (payload === null) return null;
  if (payload.kind === "inline") return payload.value;
  const bytes = await blobs.get(payload.ptr);
  if (bytes === null) return null;
  const text = new TextDecoder().decode(bytes);
  try {
    return JSON.parse(text);
  } catch {
    // Workers of the wire protocol write results themselves, not necessarily as JSON.
    return text;
  }
}

export interface PayloadView {
  readonly value: unknown;
  /** The path to read it from when it is omitted here; else null. */
  readonly at: string | null;
}

/** Redacted outputs by step id. At most `SHOWN_BYTES_MAX` are read from the blob store for one response, in step order. */
export async function outputsOf(engine: Engine, run: Run): Promise<ReadonlyMap<string, PayloadView>> {
  const remaining = { bytes: SHOWN_BYTES_MAX };
  const { paths } = engine.settings.current.redaction;
  const outputs = new Map<string, PayloadView>();
  for (const [stepId, { output }] of Object.entries(run.steps)) {
    if (output === undefined) continue;
    if (output.kind === "children") {
      outputs.set(stepId, { value: null, at: `/api/v1/workflow-runs/${run.id}/steps/${stepId}/children` });
      continue;
    }
    const read = await readWithin(engine, output, remaining);
    if (read) outputs.set(stepId, { value: redact(read.value, { paths, at: "output" }), at: null });
    else outputs.set(stepId, { value: null, at: pathOf(output) });
  }
  return outputs;
}

/** Redacted results of a page of `for_each` children; null for those over the size limit. */
export async function resultsOf(engine: Engine, jobs: readonly Job[]): Promise<readonly unknown[]> {
  const remaining = { bytes: SHOWN_BYTES_MAX };
  const { paths } = engine.settings.current.redaction;
  const results: unknown[] = [];
  for (const { output } of jobs) {
    const read = output && (await readWithin(engine, output, remaining));
    results.push(read ? redact(read.value, { paths, at: "result" }) : null);
  }
  return results;
}

const pathOf = (output: Payload): string | null =>
  output.kind === "inline" ? null : `/api/v1/memory?ptr=${encodeURIComponent(output.ptr)}`;

/**
 * Inline payloads are free: their record is already loaded. The size of a payload that a worker wrote is unknown until it
 * is read, so payloads are read one at a time until the limit is reached.
 */
async function readWithin(
  { world }: Engine,
  payload: Payload,
  remaining: { bytes: number },
): Promise<{ readonly value: unknown } | null> {
  if (payload.kind === "inline") return { value: payload.value };
  if (remaining.bytes <= 0 || payload.bytes > remaining.bytes) return null;
  const value = await payloadValue(world.blobs, payload);
  remaining.bytes -= payload.bytes || JSON.stringify(value).length;
  return remaining.bytes < 0 ? null : { value };
}

const SHOWN_BYTES_MAX = 1024 * 1024;
