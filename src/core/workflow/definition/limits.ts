export const WORKFLOW_LIMITS = {
  /** Characters of the document. */
  sourceLength: 1024 * 1024,
  depth: 64,
  steps: 256,
  /** Workflow and step ids. */
  idLength: 64,
  nameLength: 256,
  descriptionLength: 4_096,
  timeoutSec: 30 * 24 * 60 * 60,
  cases: 256,
  items: 10_000,
  parallelDefault: 64,
  retries: 100,
  pathDepth: 8,
  /** The size of a blob; see `ports/blobs.ts`. */
  outputBytes: 2 * 1024 * 1024,
  /** `max_iterations` of a loop, and its product with the number of steps in the body. */
  iterations: 1_000,
  iterationSteps: 10_000,
} as const;

/** Step ids are object keys and parts of job ids. */
export function isStepId(value: unknown): value is string {
  return typeof value === "string" && value.length <= WORKFLOW_LIMITS.idLength && /^[A-Za-z0-9_-]+$/.test(value);
}

export function isWorkflowId(value: unknown): value is string {
  return typeof value === "string" && value.length <= WORKFLOW_LIMITS.idLength && /^[A-Za-z0-9_.-]+$/.test(value);
}

/** Names of events that `wait` steps wait for, such as `invoice.paid`. */
export function isEventName(value: unknown): value is string {
  return typeof value === "string" && value.length <= WORKFLOW_LIMITS.idLength && /^[A-Za-z0-9_.:/-]+$/.test(value);
}

export const EVENT_NAME_SHAPE = `1 to ${WORKFLOW_LIMITS.idLength} letters, digits or any of \`_ . : / -\``;

/** Names that every JavaScript object inherits; not allowed as keys. */
export const isInherited = (name: string): boolean => name in {};
