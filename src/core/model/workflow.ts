import type { Placement, Table } from "./table.ts";

/**
 * A workflow as it was applied: versions that never change, and a head that names the newest.
 *
 * 1. A version is written once. A run names the version it began with and keeps to it (L44).
 * 2. Deleting a workflow takes its head off the lists: no new runs. Its versions stay while runs name them.
 */
export interface WorkflowVersion {
  readonly id: string;
  readonly org: string;
  readonly version: number;
  /** Of the document, whatever the order of its keys: the same applied twice is one version. */
  readonly hash: string;
  readonly createdMs: number;
  readonly createdBy: string | null;
  /** As it was written, as plain JSON. It was checked before it came here; `workflow/compile.ts` makes a plan of it. */
  readonly document: unknown;
}

export const WORKFLOW_VERSIONS: Table<WorkflowVersion> = {
  name: "workflow_version",
  placement: ({ org, id, version }): Placement => ({
    lists: [{ name: versionsOf(org, id), score: version }],
    queue: null,
    counters: [],
    dueMs: null,
  }),
};

export interface WorkflowHead {
  readonly id: string;
  readonly org: string;
  readonly version: number;
  readonly hash: string;
  readonly name: string | null;
  readonly createdMs: number;
  readonly updatedMs: number;
  /** When somebody deleted it; absent while it can be started. */
  readonly deletedMs?: number;
  /** When to see whether the last run that names a deleted one has gone. */
  readonly dueMs?: number;
}

export const WORKFLOW_HEADS: Table<WorkflowHead> = {
  name: "workflow",
  placement: ({ org, createdMs, deletedMs, dueMs }): Placement => ({
    lists:
      deletedMs === undefined
        ? [{ name: workflowsOf(org), score: createdMs }, everywhere(createdMs)]
        : [everywhere(createdMs)],
    queue: null,
    counters: [],
    dueMs: dueMs ?? null,
  }),
};

export const headKey = (org: string, id: string): string => `${org}/${id}`;
export const versionKey = (org: string, id: string, version: number): string => `${org}/${id}@${version}`;
export const workflowsOf = (org: string): string => `workflows/${org}`;
/** The heads of all tenants, also of workflows that were deleted while runs name them: who has a run is among them. */
export const ALL_WORKFLOWS = "workflows_of_all";
const everywhere = (score: number) => ({ name: ALL_WORKFLOWS, score });
export const versionsOf = (org: string, id: string): string => `workflow_versions/${org}/${id}`;
