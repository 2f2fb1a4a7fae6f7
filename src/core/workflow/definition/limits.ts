/** What a definition may be at most. */
export const WORKFLOW_LIMITS = {
  /** Of the document, as text. */
  sourceLength: 1024 * 1024,
  depth: 64,
  steps: 256,
  /** Ids of workflows and steps. */
  idLength: 64,
  nameLength: 256,
  descriptionLength: 4_096,
  timeoutSec: 30 * 24 * 60 * 60,
  cases: 256,
  items: 10_000,
  parallelDefault: 64,
  retries: 100,
  pathDepth: 8,
} as const;

/** Ids of steps are keys of objects, and part of the ids of jobs. */
export function isStepId(value: unknown): value is string {
  return typeof value === "string" && value.length <= WORKFLOW_LIMITS.idLength && /^[A-Za-z0-9_-]+$/.test(value);
}

export function isWorkflowId(value: unknown): value is string {
  return typeof value === "string" && value.length <= WORKFLOW_LIMITS.idLength && /^[A-Za-z0-9_.-]+$/.test(value);
}

/** Names that mean something on every object of JavaScript: kept out of records. */
export const isInherited = (name: string): boolean => name in {};
