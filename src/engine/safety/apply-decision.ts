import { createHash } from "node:crypto";
import { decideSafety } from "../../core/jobs/lifecycle.ts";
import type { Job } from "../../core/model/job.ts";
import type { Decision } from "../../core/policy/decision.ts";
import { inputKey } from "../../protocol/pointer.ts";
import { decisionContext } from "../context.ts";
import type { Needs } from "../engine.ts";

/**
 * A verdict becomes what happens to the job.
 *
 * 1. What a human is asked about stays what it is: an input that is kept elsewhere is copied to a key that nobody else
 *    knows, and its hash stands on the job, before the approval is asked for. Whoever wrote the input may overwrite their
 *    own copy; that is not the one that will be worked on (L34).
 */
export function applyDecision(engine: Needs<"world" | "settings">, job: Job, decision: Decision): Job | Promise<Job> {
  const settle = (asked: Job) => decideSafety(asked, decision, decisionContext(engine));
  return decision.effect === "require_approval" ? seal(engine, job).then(settle) : settle(job);
}

export const sha256Of = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** One that nobody else knows. */
export const secretKey = ({ world }: Needs<"world">, key: string): string => `${key}.${world.random.id()}`;

/** An input that is not there yet is left as it is: the approval finds out that the job has changed. */
async function seal(engine: Needs<"world" | "settings">, job: Job): Promise<Job> {
  const { input } = job;
  if (input.kind === "inline") return job;
  if (input.sha256 !== undefined && input.ptr !== inputKey(job.id)) return job; // Sealed before.
  const { blobs } = engine.world;
  const bytes = await blobs.get(input.ptr);
  if (bytes === null) return job;
  const ptr = secretKey(engine, inputKey(job.id));
  await blobs.put(ptr, bytes, job.deadlineMs + engine.settings.current.retention.jobsMs);
  return { ...job, input: { kind: "pointer", ptr, bytes: bytes.length, sha256: sha256Of(bytes) } };
}
