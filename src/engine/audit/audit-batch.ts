import type { AuditLine } from "../../core/model/audit.ts";

/**
 * Audit entries that are written together, in order. Allow decisions that differ only in their job share one entry that
 * lists all job ids.
 */
export class AuditBatch {
  readonly #gathered: Gathered[] = [];
  /** Entries that a further decision of the same kind can join. */
  readonly #joinable = new Map<string, Gathered>();

  add(line: AuditLine, at: number): void {
    const like = permissionLike(line);
    const job = String(line.facts?.job ?? "");
    const joined = like === null ? undefined : this.#joinable.get(like);
    if (joined && joined.length + job.length < JOBS_LENGTH_MAX) {
      joined.jobs.push(job);
      joined.length += job.length + 1;
      return;
    }
    const gathered: Gathered = { line, at, jobs: [job], length: job.length };
    this.#gathered.push(gathered);
    if (like !== null) this.#joinable.set(like, gathered);
  }

  lines(): readonly { readonly line: AuditLine; readonly at: number }[] {
    return this.#gathered.map((gathered) => ({ line: joinedLine(gathered), at: gathered.at }));
  }
}

/** The common part of decisions that can share an entry; null for other entries. */
function permissionLike({ kind, who, what, facts }: AuditLine): string | null {
  if (kind !== "decision" || what !== "allow" || facts === undefined) return null;
  return [who, facts.topic, facts.rule, facts.snapshot, facts.caller_name, facts.now, facts.shadow].join("\n");
}

function joinedLine({ line, jobs }: Gathered): AuditLine {
  if (jobs.length === 1) return line;
  const { job: _, ...facts } = line.facts ?? {};
  return { ...line, facts: { ...facts, jobs: jobs.join(" "), count: jobs.length } };
}

/** An entry for one or several jobs. */
interface Gathered {
  readonly line: AuditLine;
  readonly at: number;
  readonly jobs: string[];
  /** Characters of all job ids. */
  length: number;
}

const JOBS_LENGTH_MAX = 900;
