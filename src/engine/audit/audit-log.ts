import { AUDIT_PENDING, type AuditLine, type Fact, type StampedLine } from "../../core/model/audit.ts";
import type { Job } from "../../core/model/job.ts";
import { isSecretName, REDACTED, redactText } from "../../core/model/redact.ts";
import type { Run } from "../../core/model/run.ts";
import { type Put, put } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import type { Needs } from "../engine.ts";
import { AuditBatch } from "./audit-batch.ts";

/**
 * Writing the audit log (`core/model/audit.ts` has the format).
 *
 * 1. `auditPut` is a put for the change that the entry is about: both are committed, or neither.
 * 2. `recordAudit` is for frequent entries: the entries of one tick form one record, committed in the same tick as the
 *    changes they are about. If the store does not answer, the sweeper of this process writes the record again; an
 *    entry may then occur twice, but is never missing. `chain-audit.ts` moves it into the chain.
 * 3. Secrets are redacted before the write.
 */
export function auditPut(engine: Needs<"audit">, line: AuditLine): Put {
  return engine.audit.put([engine.audit.stamp(line)], line.org);
}

/** The same for the decisions on jobs of one tenant created by one commit. */
export function auditDecisionPuts(engine: Needs<"world" | "audit">, jobs: readonly Job[]): readonly Put[] {
  const [org] = jobs.map((job) => job.org);
  if (org === undefined) return [];
  const bundle = new AuditBatch();
  for (const job of jobs) bundle.add(decisionLine(job), engine.world.clock.now());
  return engine.audit.putAll(bundle, org);
}

export function recordAudit(engine: Needs<"world" | "commit" | "tasks" | "audit">, line: AuditLine): void {
  if (!engine.audit.add(line)) return;
  engine.tasks.track(Promise.resolve().then(() => writeAudit(engine, engine.audit.takeBatch())));
}

/** A decision of the safety kernel. */
export function decisionLine({ id, org, topic, safety, submittedBy, caller }: Job): AuditLine {
  const facts: Record<string, Fact> = {
    job: id,
    topic,
    rule: safety?.ruleId ?? null,
    reason: safety?.reason ?? null,
    snapshot: safety?.snapshot ?? null,
  };
  if (safety?.isTimed && safety.atMs !== undefined) facts.now = new Date(safety.atMs).toISOString();
  if (safety?.shadow !== undefined) {
    facts.shadow = safety.shadow.map(({ ruleId, effect }) => `${ruleId}: ${effect}`).join(", ");
  }
  if (caller?.role !== undefined) facts.caller_role = caller.role;
  if (caller?.name !== undefined) facts.caller_name = caller.name;
  if (caller?.tenant !== undefined) facts.caller_tenant = caller.tenant;
  if (caller?.person !== undefined) facts.person = caller.person;
  return {
    org,
    kind: "decision",
    who: submittedBy ?? "unknown",
    what: safety?.effect ?? "none",
    facts,
  };
}

/** The decided job was not created; an earlier one exists. */
export function repeatedLine({ id, org, submittedBy }: Job, known: string): AuditLine {
  return { org, kind: "decision", who: submittedBy ?? "unknown", what: "repeated", facts: { job: id, known } };
}

/** The run whose first jobs were decided was not started. */
export function notStartedLine({ id, org, submittedBy }: Run, why: string): AuditLine {
  return { org, kind: "decision", who: submittedBy ?? "unknown", what: "not_started", facts: { run: id, why } };
}

/** Entries that this process is about to write. */
export class AuditBuffer {
  readonly #world: World;
  readonly #gathered = new Map<string, AuditBatch>();
  #unwritten: AuditRecord[] = [];
  #prefix = "";
  #last = 0;

  constructor(world: World) {
    this.#world = world;
  }

  stamp({ kind, who, what, facts }: AuditLine, at = this.#world.clock.now()): StampedLine {
    if (facts === undefined) return { at, kind, who: redacted(who), what: redacted(what) };
    return { at, kind, who: redacted(who), what: redacted(what), facts: redactedFacts(facts) };
  }

  /** Record ids of one process are ordered by creation. */
  put(lines: readonly StampedLine[], org: string): Put {
    this.#prefix ||= this.#world.random.id();
    const id = `${org}/${this.#prefix}.${String(++this.#last).padStart(12, "0")}`;
    return put(AUDIT_PENDING, id, null, { org, lines });
  }

  putAll(bundle: AuditBatch, org: string): readonly Put[] {
    const lines = bundle.lines().map(({ line, at }) => this.stamp(line, at));
    const puts: Put[] = [];
    for (let at = 0; at < lines.length; at += LINES_MAX) puts.push(this.put(lines.slice(at, at + LINES_MAX), org));
    return puts;
  }

  /** True for the first entry of a tick: its caller writes the batch. */
  add(line: AuditLine): boolean {
    const isFirst = this.#gathered.size === 0;
    const bundle = this.#gathered.get(line.org) ?? new AuditBatch();
    bundle.add(line, this.#world.clock.now());
    this.#gathered.set(line.org, bundle);
    return isFirst;
  }

  takeBatch(): readonly AuditRecord[] {
    const taken: AuditRecord[] = [];
    for (const [org, bundle] of this.#gathered) {
      for (const put of this.putAll(bundle, org)) taken.push({ org, put });
    }
    this.#gathered.clear();
    return taken;
  }

  /** Keeps a batch that the store did not confirm. False if the buffer is full. */
  keepFailed(noted: AuditRecord): boolean {
    if (this.#unwritten.length >= FAILED_MAX) return false;
    this.#unwritten.push(noted);
    return true;
  }

  takeFailed(): readonly AuditRecord[] {
    const taken = this.#unwritten;
    if (taken.length > 0) this.#unwritten = [];
    return taken;
  }
}

function redactedFacts(facts: Readonly<Record<string, Fact>>): Record<string, Fact> {
  const clean: Record<string, Fact> = {};
  for (const name in facts) {
    const fact = facts[name] ?? null;
    const isSecret = fact !== null && typeof fact !== "boolean" && isSecretName(name);
    clean[name] = isSecret ? REDACTED : typeof fact === "string" ? redacted(fact) : fact;
  }
  return clean;
}

function redacted(text: string): string {
  return redactText(text.length > TEXT_LENGTH_MAX ? text.slice(0, TEXT_LENGTH_MAX) : text);
}

interface AuditRecord {
  readonly org: string;
  readonly put: Put;
}

/** Never throws. Stale: written before, and the response was lost. */
export async function writeAudit(
  engine: Needs<"world" | "commit" | "audit">,
  notes: readonly AuditRecord[],
): Promise<void> {
  const { log } = engine.world;
  const writes = notes.map((noted) =>
    engine.commit({ org: noted.org, puts: [noted.put] }).catch((error: unknown) => {
      if (engine.audit.keepFailed(noted)) log.write("warn", "audit_write_deferred", { error: String(error) });
      else log.write("error", "audit_entries_dropped", { org: noted.org, id: noted.put.id, error: String(error) });
    }),
  );
  await Promise.all(writes);
}

/** Entries per record. */
const LINES_MAX = 500;
const FAILED_MAX = 1_000;
const TEXT_LENGTH_MAX = 1_000;
