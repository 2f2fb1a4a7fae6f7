/**
 * Apply, delete and load workflows.
 *
 * 1. Only a valid definition is applied; otherwise all problems are returned.
 * 2. A version is written once, in one commit with its head and audit entry. Applying the current definition again
 *    changes nothing.
 * 3. Versions are numbered without gaps, also after a deletion and under concurrent applies.
 * 4. Deleting removes the head from all lists at once. The versions are removed when no run uses the workflow.
 */
import { createHash } from "node:crypto";
import type { WorkflowSource } from "../../core/evaluation/tasks.ts";
import { canonicalText } from "../../core/model/json.ts";
import { RUNS, type Run, runsOfWorkflow } from "../../core/model/run.ts";
import {
  headKey,
  versionKey,
  versionsOf,
  WORKFLOW_HEADS,
  WORKFLOW_VERSIONS,
  type WorkflowHead,
  type WorkflowVersion,
} from "../../core/model/workflow.ts";
import { compileWorkflow } from "../../core/workflow/definition/compile.ts";
import type { Plan } from "../../core/workflow/definition/plan.ts";
import type { Busy } from "../../ports/evaluator.ts";
import { put, type Versioned } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import { retryOnConflict } from "../commit.ts";
import type { Needs } from "../engine.ts";

export type ApplyRequest = { readonly org: string; readonly by: string } & WorkflowSource;

export type Applied =
  | { readonly kind: "applied"; readonly id: string; readonly version: number; readonly isNew: boolean }
  | { readonly kind: "invalid"; readonly problems: readonly string[] }
  | { readonly kind: "over"; readonly why: string }
  | Busy;

export async function applyWorkflow(
  engine: Needs<"world" | "commit" | "audit" | "planCache">,
  request: ApplyRequest,
): Promise<Applied> {
  const { org } = request;
  const source: WorkflowSource = "source" in request ? { source: request.source } : { document: request.document };
  const read = await engine.world.evaluator.run(org, "readWorkflow", source);
  if (read.kind !== "answered") return read;
  if (read.answer.kind === "bad") return { kind: "invalid", problems: read.answer.problems };
  const { document } = read.answer;
  const compiled = compileWorkflow(document);
  if (compiled.kind === "bad") return { kind: "invalid", problems: compiled.problems };
  const { plan } = compiled;
  const hash = createHash("sha256").update(canonicalText(document)).digest("hex").slice(0, 32);
  return retryOnConflict(`workflow \`${plan.id}\``, () => applyOnce(engine, request, { plan, document, hash }));
}

export interface DeleteRequest {
  readonly org: string;
  readonly id: string;
  readonly by: string;
}

export type Deleted = { readonly kind: "deleted" } | { readonly kind: "not_found" };

export function deleteWorkflow(
  engine: Needs<"world" | "settings" | "commit" | "audit">,
  { org, id, by }: DeleteRequest,
): Promise<Deleted> {
  return retryOnConflict(`workflow \`${id}\``, async () => {
    const found = await loadHead(engine, org, id);
    if (!found || found.value.deletedMs !== undefined) return { kind: "not_found" };
    const nowMs = engine.world.clock.now();
    const dueMs = nowMs + engine.settings.current.retention.runsMs;
    const after: WorkflowHead = { ...found.value, updatedMs: nowMs, deletedMs: nowMs, dueMs };
    const facts = { workflow: id, version: found.value.version };
    const puts = [
      put(WORKFLOW_HEADS, found.id, found, after),
      auditPut(engine, { org, kind: "workflow", who: by, what: "deleted", facts }),
    ];
    return (await engine.commit({ org, puts })).kind === "committed" ? { kind: "deleted" } : "stale";
  });
}

/** The newest version if none is named. A deleted workflow has only named versions. */
export async function loadWorkflow(
  engine: Needs<"world" | "planCache">,
  org: string,
  id: string,
  version: number | null,
): Promise<WorkflowVersion | null> {
  const wanted = version ?? (await versionToRun(engine, org, id, null));
  return wanted === null ? null : ((await loadVersion(engine, org, id, wanted))?.value ?? null);
}

/** The version that a new run uses; null if there is none or it was deleted. */
export async function versionToRun(
  engine: Needs<"world">,
  org: string,
  id: string,
  version: number | null,
): Promise<number | null> {
  const head = await loadHead(engine, org, id);
  return head && head.value.deletedMs === undefined ? (version ?? head.value.version) : null;
}

export function cachedPlan(engine: Needs<"world" | "planCache">, { org, workflowId, version }: Run): Plan | null {
  return engine.planCache.get(versionKey(org, workflowId, version), engine.world.clock.now());
}

/** Null if the version does not exist. Throws if this program version cannot compile it. */
export async function planOf(
  engine: Needs<"world" | "planCache">,
  org: string,
  id: string,
  version: number,
): Promise<Plan | null> {
  const key = versionKey(org, id, version);
  const { clock } = engine.world;
  const known = engine.planCache.get(key, clock.now());
  if (known) return known;
  const found = await loadVersion(engine, org, id, version);
  if (!found) return null;
  const confirmed = engine.planCache.get(key, clock.now());
  if (confirmed) return confirmed;
  const compiled = compileWorkflow(found.value.document);
  if (compiled.kind === "bad") {
    throw new Error(`workflow \`${id}\` version ${version} cannot be compiled: ${compiled.problems.join("; ")}`);
  }
  engine.planCache.put(key, found.value, compiled.plan, clock.now());
  return compiled.plan;
}

/**
 * Timer handler of deleted workflows. Versions are removed in batches, the head with the last one. An apply meanwhile
 * is safe, because each commit requires the head it read.
 */
export async function onWorkflowDue(
  engine: Needs<"world" | "settings" | "commit" | "planCache">,
  found: Versioned<WorkflowHead>,
): Promise<void> {
  const { store, clock } = engine.world;
  const { org, id, deletedMs } = found.value;
  if (deletedMs === undefined) return;
  const nowMs = clock.now();
  const runs = await store.list(RUNS, { index: runsOfWorkflow(org, id), limit: 1 });
  if (runs.items.length > 0) {
    const after = { ...found.value, dueMs: nowMs + engine.settings.current.retention.runsMs };
    await engine.commit({ org, puts: [put(WORKFLOW_HEADS, found.id, found, after)] });
    return;
  }
  const query = { index: versionsOf(org, id), limit: REMOVED_AT_ONCE, order: "oldest" } as const;
  const { items, cursor } = await store.list(WORKFLOW_VERSIONS, query);
  const head = cursor === null ? null : { ...found.value, dueMs: nowMs };
  const removed = items.map((item) => put(WORKFLOW_VERSIONS, item.id, item, null));
  const committed = await engine.commit({ org, puts: [put(WORKFLOW_HEADS, found.id, found, head), ...removed] });
  if (committed.kind === "committed") for (const item of items) engine.planCache.drop(item.id);
}

/** A document may have 1 MiB. */
const REMOVED_AT_ONCE = 16;

async function applyOnce(
  engine: Needs<"world" | "commit" | "audit" | "planCache">,
  { org, by }: Pick<ApplyRequest, "org" | "by">,
  { plan, document, hash }: { readonly plan: Plan; readonly document: unknown; readonly hash: string },
): Promise<Applied | "stale"> {
  const { id, name } = plan;
  const before = await loadHead(engine, org, id);
  const isDeleted = before?.value.deletedMs !== undefined;
  if (before && !isDeleted && before.value.hash === hash) {
    return { kind: "applied", id, version: before.value.version, isNew: false };
  }
  const nowMs = engine.world.clock.now();
  const version = (before?.value.version ?? 0) + 1;
  const createdMs = before && !isDeleted ? before.value.createdMs : nowMs;
  const head: WorkflowHead = { id, org, version, hash, name, createdMs, updatedMs: nowMs };
  const made: WorkflowVersion = { id, org, version, hash, createdMs: nowMs, createdBy: by, document };
  const committed = await engine.commit({
    org,
    puts: [
      put(WORKFLOW_HEADS, headKey(org, id), before, head),
      put(WORKFLOW_VERSIONS, versionKey(org, id, version), null, made),
      auditPut(engine, { org, kind: "workflow", who: by, what: "applied", facts: { workflow: id, version, hash } }),
    ],
  });
  if (committed.kind !== "committed") return "stale";
  engine.planCache.put(versionKey(org, id, version), made, plan, nowMs);
  return { kind: "applied", id, version, isNew: true };
}

function loadHead(engine: Needs<"world">, org: string, id: string): Promise<Versioned<WorkflowHead> | null> {
  return engine.world.store.load(WORKFLOW_HEADS, headKey(org, id));
}

async function loadVersion(
  engine: Needs<"world" | "planCache">,
  org: string,
  id: string,
  version: number,
): Promise<Versioned<WorkflowVersion> | null> {
  const key = versionKey(org, id, version);
  const found = await engine.world.store.load(WORKFLOW_VERSIONS, key);
  if (found) engine.planCache.confirm(key, found.value, engine.world.clock.now());
  else engine.planCache.drop(key);
  return found;
}
