import { createHash } from "node:crypto";
import { decideSafety } from "../../core/jobs/lifecycle.ts";
import type { Job } from "../../core/model/job.ts";
import type { Decision } from "../../core/policy/decision.ts";
import { inputKey } from "../../protocol/pointer.ts";
import { decisionContext } from "../context.ts";
import type { Needs } from "../engine.ts";

/**
 * Applies a safety decision to a job.
 *
 * 1. Before an approval is requested, an input in the blob store is copied to a random key and its hash is put on the
 *    job. The submitter may overwrite the original, but not what will be executed (L34).
 */
export function applyDecision(engine: Needs<"world" | "settings">, job: Job, decision: Decision): Job | Promise<Job> {
  const settle = (asked: Job) => decideSafety(asked, decision, decisionContext(engine));
  return decision.effect === "require_approval" ? seal(engine, job).then(settle) : settle(job);
}

export const sha256Of = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** A key that cannot be guessed. */
export const secretKey = ({ world }: Needs<"world">, key: string): string => `${key}.${world.random.id()}`;

/** A missing input is left as it is; the approval will find that the job changed. */
async function seal(engine: Needs<"world" | "settings">, job: Job): Promise<Job> {
  const { input } = job;
  if (input.kind === "inline") return job;
  if (input.sha256 !== undefined && input.ptr !== inputKey(job.id)) return job;
  const { blobs } = engine.world;
  const bytes = await blobs.get(input.ptr);
  if (bytes === null) return job;
  const ptr = secretKey(engine, inputKey(job.id));
  await blobs.put(ptr, bytes, job.deadlineMs + engine.settings.current.retention.jobsMs);
  return { ...job, input: { kind: "pointer", ptr, bytes: bytes.length, sha256: sha256Of(bytes) } };
}
