import { AUDIT_HEADS, AUDIT_PAGES, emptyHead, extend, pageId, pagesOf } from "../../../src/core/model/audit.ts";
import { DEAD_LETTERS, withFingerprint } from "../../../src/core/model/dead-letter.ts";
import { JOB_STATES, JOBS, type Job } from "../../../src/core/model/job.ts";
import { RETRY_CLASSES } from "../../../src/core/retry/retry-classes.ts";
import { type Change, put } from "../../../src/ports/store.ts";
import { fresh } from "../../../test/core/jobs/stages.ts";
import type { FillListsTask } from "../task.ts";
import { cordumOnly, openWorld } from "./world.ts";

/** Writes jobs, and for each tenth one a dead letter and an audit entry, into a data directory. */
export async function fillLists({ backend, jobs }: FillListsTask): Promise<null> {
  const { world, close } = await openWorld(cordumOnly(backend));
  const nowMs = world.clock.now();
  const write = async (puts: Change["puts"]) => {
    const { kind } = await world.store.commit({ org: ORG, atMs: nowMs, puts, guards: [], sends: [], watch: [] });
    if (kind !== "committed") throw new Error(`the records were not written: ${kind}`);
  };
  for (let from = 0; from < jobs; from += CHUNK) {
    const ns = Array.from({ length: Math.min(CHUNK, jobs - from) }, (_, at) => from + at);
    const written = ns.map((n) => jobAt(n, jobs, nowMs));
    const dead = written.filter((_, at) => at % 10 === 0).map((job, at) => deadLetterOf(job, from + at, nowMs));
    const puts = [
      ...written.map((job) => put(JOBS, job.id, null, job)),
      ...dead.map((letter) => put(DEAD_LETTERS, letter.id, null, letter)),
    ];
    const commits = Array.from({ length: Math.ceil(puts.length / EACH) }, (_, at) =>
      write(puts.slice(at * EACH, (at + 1) * EACH)),
    );
    await Promise.all(commits);
  }
  await fillAudit(jobs / 10, nowMs, write);
  await close();
  return null;
}

async function fillAudit(entries: number, nowMs: number, write: (puts: Change["puts"]) => Promise<void>) {
  const lines = Array.from({ length: entries }, (_, n) => ({
    at: nowMs - (entries - n) * 100,
    kind: n % 3 === 0 ? ("approval" as const) : ("cancel" as const),
    who: `key-${n % 20}`,
    what: n % 3 === 0 ? "approved" : "cancelled",
    facts: { job: `j${n * 10}` },
  }));
  const empty = emptyHead(ORG);
  const { entries: chained, head } = extend(empty, lines);
  const pages = pagesOf(empty, null, chained);
  for (let from = 0; from < pages.length; from += PAGES_EACH) {
    const some = pages.slice(from, from + PAGES_EACH);
    await write(some.map((page) => put(AUDIT_PAGES, pageId(ORG, page.number), null, page)));
  }
  await write([put(AUDIT_HEADS, ORG, null, head)]);
}

/** One job in ten thousand has a rare topic and label. A tenth waits for a retry; nothing is due. */
function jobAt(n: number, total: number, nowMs: number): Job {
  const isRare = n % 10_000 === 7;
  const isRetrying = n % 10 === 3;
  const untilMs = nowMs + 7 * DAY_MS;
  return {
    ...TEMPLATE,
    ...{ id: `j${n}`, traceId: `j${n}`, org: ORG, topic: isRare ? "rare" : `topic-${n % 50}` },
    state: isRetrying ? "RETRYING" : (JOB_STATES[n % JOB_STATES.length] ?? "SUCCEEDED"),
    ...{ createdMs: nowMs - (total - n) * 100, updatedMs: nowMs, dueMs: untilMs, deadlineMs: untilMs },
    labels: { team: `team-${n % 100}`, ...(isRare && { incident: "42" }) },
    wait: isRetrying
      ? {
          retryClass: RETRY_CLASSES[n % RETRY_CLASSES.length] ?? "unclassified",
          reason: "why",
          untilMs,
          setBy: "policy",
        }
      : null,
  };
}

function deadLetterOf(job: Job, n: number, nowMs: number) {
  const messages = ["customer 17 not found", "certificate has expired", "rate limit of the provider"];
  return withFingerprint({
    ...{ id: `letter-${job.id}`, org: ORG, createdMs: job.createdMs, dueMs: nowMs + 7 * DAY_MS },
    reason: n % 2 === 0 ? "permanent" : "budget",
    error: { name: n % 4 === 0 ? "TypeError" : "Error", message: messages[n % messages.length] ?? "" },
    source: { kind: "job", jobId: job.id, topic: job.topic, attempt: 1, input: { kind: "inline", value: n } },
    history: [],
  });
}

const TEMPLATE = fresh();
const ORG = "default";
const DAY_MS = 24 * 3_600_000;
/** Jobs per batch of concurrent commits. */
const CHUNK = 5_000;
/** Records per commit. */
const EACH = 100;
const PAGES_EACH = 10;
