/**
 * The payloads of a run's steps, as far as they fit into one answer.
 *
 * 1. A run may have hundreds of steps and a child of a `for_each` ten thousand brothers: only so many bytes are read for one
 *    answer, in the order of the steps. Of the rest the answer says where it stands.
 * 2. What is shown of a step has passed the redaction: it may be what went in, copied. The job has it is.
 */

import type { Job, Payload } from "../../core/model/job.ts";
import { redact } from "../../core/model/redact.ts";
import type { Run } from "../../core/model/run.ts";
import type { Engine } from "../../engine/engine.ts";
import { payloadValue } from "./payload.ts";

export interface Shown {
  readonly value: unknown;
  /** Where it is read when it is not shown; null when it is, or when there is none. */
  readonly at: string | null;
}

/** The outputs of the steps that have one, by the step's id. */
export async function outputsOf(engine: Engine, run: Run): Promise<ReadonlyMap<string, Shown>> {
  const room = { bytes: SHOWN_BYTES_MAX };
  const { paths } = engine.settings.current.redaction;
  const outputs = new Map<string, Shown>();
  for (const [stepId, { output }] of Object.entries(run.steps)) {
    if (output === undefined) continue;
    if (output.kind === "children") {
      outputs.set(stepId, { value: null, at: `/api/v1/workflow-runs/${run.id}/steps/${stepId}/children` });
      continue;
    }
    const read = await readWithin(engine, output, room);
    if (read) outputs.set(stepId, { value: redact(read.value, { paths, at: "output" }), at: null });
    else outputs.set(stepId, { value: null, at: whereOf(output) });
  }
  return outputs;
}

/** The results of a page of children, in their order; null for one that does not fit. */
export async function resultsOf(engine: Engine, jobs: readonly Job[]): Promise<readonly unknown[]> {
  const room = { bytes: SHOWN_BYTES_MAX };
  const { paths } = engine.settings.current.redaction;
  const results: unknown[] = [];
  for (const { output } of jobs) {
    const read = output && (await readWithin(engine, output, room));
    results.push(read ? redact(read.value, { paths, at: "result" }) : null);
  }
  return results;
}

const whereOf = (output: Payload): string | null =>
  output.kind === "inline" ? null : `/api/v1/memory?ptr=${encodeURIComponent(output.ptr)}`;

/**
 * What is small stands in the record itself, which was read anyway. Of what a worker wrote into the blob store itself only
 * reading tells the size: so one is read after the other, and none once the room is used up.
 */
async function readWithin(
  { world }: Engine,
  payload: Payload,
  room: { bytes: number },
): Promise<{ readonly value: unknown } | null> {
  if (payload.kind === "inline") return { value: payload.value };
  if (room.bytes <= 0 || payload.bytes > room.bytes) return null;
  const value = await payloadValue(world.blobs, payload);
  room.bytes -= payload.bytes || JSON.stringify(value).length;
  return room.bytes < 0 ? null : { value };
}

const SHOWN_BYTES_MAX = 1024 * 1024;
