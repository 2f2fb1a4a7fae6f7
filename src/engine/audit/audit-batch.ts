import type { AuditLine } from "../../core/model/audit.ts";

/**
 * Lines of the audit log that are written together, in order. Plain permissions that differ in their job alone are one line
 * that names all the jobs.
 */
export class AuditBatch {
  readonly #gathered: Gathered[] = [];
  /** Of those, the ones that a further permission of the same kind can join. */
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

/** What permissions that can share a line have in common; null for every other line. */
function permissionLike({ kind, who, what, facts }: AuditLine): string | null {
  if (kind !== "decision" || what !== "allow" || facts === undefined) return null;
  return [who, facts.topic, facts.rule, facts.snapshot].join("\n");
}

function joinedLine({ line, jobs }: Gathered): AuditLine {
  if (jobs.length === 1) return line;
  const { job: _, ...facts } = line.facts ?? {};
  return { ...line, facts: { ...facts, jobs: jobs.join(" "), count: jobs.length } };
}

/** A line that is about to be written, for one job or for several. */
interface Gathered {
  readonly line: AuditLine;
  readonly at: number;
  readonly jobs: string[];
  /** Characters of the jobs' ids. */
  length: number;
}

/** Fits into a text. */
const JOBS_LENGTH_MAX = 900;
