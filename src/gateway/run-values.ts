/**
 * The payloads of a run's steps, as far as they fit into one answer.
 *
 * 1. A run may have hundreds of steps and a child of a `for_each` ten thousand brothers: only so many bytes are read for one
 *    answer, in the order of the steps. Of the rest the answer says where it stands.
 * 2. What is shown of a step has passed the redaction: it may be what went in, copied. The job has it as it is.
 */
import type { Flow } from "../flow/flow.ts";
import type { Job, Payload } from "../model/job.ts";
import { redact } from "../model/redact.ts";
import type { Run } from "../model/run.ts";
import { payloadValue } from "./payload.ts";

export interface Shown {
  readonly value: unknown;
  /** Where it is read when it is not shown; null when it is, or when there is none. */
  readonly at: string | null;
}

/** The outputs of the steps that have one, by the step's id. */
export async function outputsOf(flow: Flow, run: Run): Promise<ReadonlyMap<string, Shown>> {
  const room = { bytes: SHOWN_BYTES_MAX };
  const reads: Promise<readonly [string, Shown]>[] = [];
  for (const [stepId, { output }] of Object.entries(run.steps)) {
    if (output === undefined) continue;
    reads.push(shownOutput(flow, { run, stepId, output, fits: output.kind === "children" || fits(output, room) }));
  }
  return new Map(await Promise.all(reads));
}

/** The results of a page of children, in their order; null for one that does not fit. */
export function resultsOf({ world, settings }: Flow, jobs: readonly Job[]): Promise<readonly unknown[]> {
  const room = { bytes: SHOWN_BYTES_MAX };
  const { paths } = settings.current.redaction;
  return Promise.all(
    jobs.map(async ({ output }) => {
      if (output === null || !fits(output, room)) return null;
      return redact(await payloadValue(world.blobs, output), { paths, at: "result" });
    }),
  );
}

interface StepValue {
  readonly run: Run;
  readonly stepId: string;
  readonly output: NonNullable<Run["steps"][string]["output"]>;
  readonly fits: boolean;
}

async function shownOutput(flow: Flow, { run, stepId, output, fits }: StepValue): Promise<readonly [string, Shown]> {
  if (output.kind === "children") {
    return [stepId, { value: null, at: `/api/v1/workflow-runs/${run.id}/steps/${stepId}/children` }];
  }
  if (!fits) return [stepId, { value: null, at: whereOf(output) }];
  const { paths } = flow.settings.current.redaction;
  const value = redact(await payloadValue(flow.world.blobs, output), { paths, at: "output" });
  return [stepId, { value, at: null }];
}

const whereOf = (output: Payload): string | null =>
  output.kind === "inline" ? null : `/api/v1/memory?ptr=${encodeURIComponent(output.ptr)}`;

/** What is small stands in the record itself, which was read anyway. */
function fits(payload: Payload, room: { bytes: number }): boolean {
  if (payload.kind === "inline") return true;
  if (payload.bytes > room.bytes) return false;
  room.bytes -= payload.bytes;
  return true;
}

const SHOWN_BYTES_MAX = 1024 * 1024;
