/** A data directory with very many jobs, written by SQL: 1,000,000 in seconds. Their rows have no checksums, as those of schema 3. */
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Job, JobState } from "../../../src/core/model/job.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { fresh } from "../../core/jobs/stages.ts";
import { openSeeded } from "./seed.ts";

const { DatabaseSync } = createRequire(import.meta.url)("@photostructure/sqlite");

const TOPICS = ["pay", "mail", "ship", "audit"] as const;
/** Of each 100. */
const STATES: readonly (readonly [JobState, from: number])[] = [
  ["SUCCEEDED", 6],
  ["FAILED", 1],
  ["CANCELLED", 0],
];

/** `job-0000000` … of the tenant `default`, one per millisecond until `nowMs`. Each is in its state's list and its topic's. */
export async function seedJobs(dir: string, total: number): Promise<void> {
  let nowMs = 0;
  await openSeeded(dir, async ({ clock }) => {
    nowMs = clock.now();
  });
  const db = new DatabaseSync(join(dir, "cordum.db"));
  for (const pragma of [
    "busy_timeout = 30000",
    "synchronous = off",
    "cache_size = -400000",
    "wal_autocheckpoint = 0",
  ]) {
    db.exec(`pragma ${pragma}`);
  }
  db.exec("begin");
  db.exec(`
    create temp table seeded as
      with recursive n(i) as (select 0 union all select i + 1 from n where i < ${total - 1})
      select printf('job-%07d', i) as id, ${nowMs - total} + i as at, i % ${TOPICS.length} as topic, i / ${TOPICS.length} % 100 as part from n`);
  for (const [at, topic] of TOPICS.entries()) {
    let below = 100;
    for (const [state, from] of STATES) {
      const rows = `from seeded where topic = ${at} and part >= ${from} and part < ${below}`;
      const job = jobOf(state, topic);
      db.exec(
        `insert into records (tbl, id, version, value, due_ms) select 'job', id, 1, ${textOf(job)}, at + ${WEEK_MS} ${rows}`,
      );
      for (const { name } of JOBS.placement(job).lists) {
        db.exec(`insert into lists (tbl, name, score, id) select 'job', '${name}', at, id ${rows}`);
      }
      below = from;
    }
  }
  db.exec("commit");
  db.exec("pragma wal_checkpoint(truncate)");
  db.close();
}

const WEEK_MS = 7 * 86_400_000;
/** Replaced in the text of the record. */
const [ID, AT, DUE] = ["@id", -1, -2];

function jobOf(state: JobState, topic: string): Job {
  const times = { createdMs: AT, updatedMs: AT, deadlineMs: DUE, dueMs: DUE, dispatchedMs: AT };
  const error = state === "FAILED" ? { name: "Error", message: "the gateway answered 500" } : null;
  return {
    ...fresh({ topic }, { kind: "inline", value: { n: 1 } }),
    id: ID,
    traceId: ID,
    state,
    error,
    attempt: 1,
    ...times,
  };
}

/** An SQL expression for the JSON of the record. */
function textOf(job: Job): string {
  const parts = JSON.stringify(job).split(/("@id"|:-1\b|:-2\b)/);
  const sql = parts.map((part) => {
    if (part === `"${ID}"`) return `'"' || id || '"'`;
    if (part === `:${AT}`) return "':' || at";
    if (part === `:${DUE}`) return `':' || (at + ${WEEK_MS})`;
    return `'${part.replaceAll("'", "''")}'`;
  });
  return sql.join(" || ");
}
