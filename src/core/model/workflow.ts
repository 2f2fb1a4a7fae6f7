import type { Placement, Table } from "./table.ts";

/**
 * Workflow definitions: immutable versions, and a head that names the latest.
 *
 * 1. A version is written once. A run keeps the version it started with (L44).
 * 2. Deleting a workflow unlists its head, which prevents new runs. Versions stay while runs reference them.
 */
export interface WorkflowVersion {
  readonly id: string;
  readonly org: string;
  readonly version: number;
  /** Hash of the document, independent of key order: applying the same document twice creates one version. */
  readonly hash: string;
  readonly createdMs: number;
  readonly createdBy: string | null;
  /** The validated source document as JSON; `workflow/definition/compile.ts` compiles it. */
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
  /** Absent while it can be started. */
  readonly deletedMs?: number;
  /** When to check whether the last run of a deleted workflow is gone. */
  readonly dueMs?: number;
}

export const WORKFLOW_HEADS: Table<WorkflowHead> = {
  name: "workflow",
  placement: ({ org, createdMs, deletedMs, dueMs }): Placement => ({
    lists:
      deletedMs === undefined
        ? [{ name: workflowsOf(org), score: createdMs }, inAllWorkflows(createdMs)]
        : [inAllWorkflows(createdMs)],
    queue: null,
    counters: [],
    dueMs: dueMs ?? null,
  }),
};

export const headKey = (org: string, id: string): string => `${org}/${id}`;
export const versionKey = (org: string, id: string, version: number): string => `${org}/${id}@${version}`;
export const workflowsOf = (org: string): string => `workflows/${org}`;
/** Heads of all tenants, including deleted workflows with runs. */
export const ALL_WORKFLOWS = "workflows_of_all";
const inAllWorkflows = (score: number) => ({ name: ALL_WORKFLOWS, score });
export const versionsOf = (org: string, id: string): string => `workflow_versions/${org}/${id}`;
