import { createHash } from "node:crypto";
import type { Job } from "../job.ts";

/** Identify the run and step of a job; also sent to workers as environment. */
export const STEP_LABELS = ["workflow_id", "run_id", "step_id"] as const;

/**
 * Labels that only the control plane writes. Policies and operators trust them: a client that set them could pass its
 * job off as a step of a run, or as a bypass.
 */
export const RESERVED_LABELS: readonly string[] = [...STEP_LABELS, "safety_bypassed", "safety_bypass_reason"];

/** The first labels by name, without those of the control plane. */
export function indexedLabels(labels: Job["labels"]): readonly string[] {
  const keys: string[] = [];
  for (const key in labels) if (!RESERVED_LABELS.includes(key)) keys.push(key);
  if (keys.length === 0) return keys;
  return keys
    .sort()
    .slice(0, INDEXED_LABELS_MAX)
    .map((key) => labelPart(key, labels[key] ?? ""));
}
/** Bounds the list entries of a job. */
export const INDEXED_LABELS_MAX = 8;

/** A label as part of a list name: bounded, and without characters that a store may change. */
export function labelPart(key: string, value: string): string {
  const plain = `${key.length}:${key}=${value}`;
  if (plain.length <= LABEL_PART_MAX && !/[^ -~]/.test(plain)) return plain;
  return `#${createHash("sha256").update(JSON.stringify(plain)).digest("base64url").slice(0, DIGEST_LENGTH)}`;
}
const LABEL_PART_MAX = 64;
const DIGEST_LENGTH = 22;
