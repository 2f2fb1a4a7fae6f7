import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { percentile } from "../frame/figures.ts";
import { Series } from "../frame/series.ts";
import { withFreshServers } from "../frame/servers.ts";
import { atMost, type Suite } from "../frame/suite.ts";
import { EMBEDDED } from "./jobs.ts";

/** Latency of filtered lists over HTTP. */
export const LISTS_SUITE: Suite = {
  title: "lists: latency of a filtered page (filter, jobs stored)",
  notes: [
    "the shipped program on a data directory with a dead letter and an audit entry for each tenth job; one request at a time",
    "each filter is requested for its first page and for the pages that follow, also where few or no records match",
  ],
  columns: [
    { key: "p50_ms", title: "p50 ms", digits: 1 },
    { key: "p95_ms", title: "p95 ms", digits: 1 },
  ],
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    const jobs = bench.isQuick ? JOBS_QUICK : JOBS;
    await withFreshServers({ name: EMBEDDED, kind: "embedded", concurrency: 1 }, async ({ backend }) => {
      if (backend.kind !== "embedded") throw new Error("this suite measures the embedded deployment only");
      await bench.children.run({ kind: "fill-lists", backend, jobs });
      bench.logProgress(`lists: ${jobs} jobs written`);
      await withGateway(backend.dataDir, async (request) => {
        for (let round = 0; round <= bench.rounds; round++) {
          for (const filter of FILTERS) {
            const times = await measure(request, filter, faults);
            // The first round warms up the compiler and the caches.
            if (round === 0) continue;
            series.add(filter, jobs, { p50_ms: percentile(times, 0.5), p95_ms: percentile(times, 0.95) });
          }
        }
      });
    });
    const targets = FILTERS.map((filter) =>
      atMost(`${filter}: p95 ≤ 50 ms`, series.median(filter, jobs, "p95_ms"), 50),
    );
    return { series, faults, targets };
  },
};

type Get = (path: string) => Promise<{ readonly status: number; readonly body: Page }>;

interface Page {
  readonly items?: readonly unknown[];
  readonly next_cursor?: string | null;
}

async function measure(get: Get, filter: string, faults: string[]): Promise<readonly number[]> {
  const times: number[] = [];
  const [path = "", query = ""] = filter.split("?");
  for (let cursor = ""; times.length < REQUESTS; ) {
    const begunMs = performance.now();
    const { status, body } = await get(`${path}?${query}${cursor}`);
    times.push(performance.now() - begunMs);
    if (status !== 200) {
      faults.push(`${filter}: ${status} ${JSON.stringify(body)}`);
      return [Number.NaN];
    }
    cursor = body.next_cursor ? `&cursor=${encodeURIComponent(body.next_cursor)}` : "";
  }
  return times;
}

/** The shipped program on a data directory, until `work` is done. */
async function withGateway(dataDir: string, work: (get: Get) => Promise<void>): Promise<void> {
  const child = spawn(process.execPath, [PROGRAM, "up", "--json", "--port", "0", "--data", dataDir], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const url = await addressOf(child);
    const key = (await readFile(join(dataDir, "token"), "utf8")).trim();
    await work(async (path) => {
      const response = await fetch(`${url}/api/v1${path}`, { headers: { "x-api-key": key } });
      return { status: response.status, body: (await response.json()) as Page };
    });
  } finally {
    child.kill("SIGTERM");
    await once(child, "exit");
  }
}

/** The program prints one JSON document when it listens. */
async function addressOf(child: ChildProcess): Promise<string> {
  let text = "";
  for await (const chunk of child.stdout ?? []) {
    text += chunk;
    if (text.endsWith("}\n")) return (JSON.parse(text) as { readonly url: string }).url;
  }
  throw new Error(`the program exited before it listened: ${text}`);
}

const FILTERS = [
  "/jobs",
  "/jobs?state=FAILED",
  "/jobs?topic=topic-7",
  "/jobs?topic=rare",
  "/jobs?topic=absent",
  "/jobs?label=team%3Dteam-42",
  "/jobs?label=incident%3D42",
  "/jobs?label=incident%3Dnone",
  "/jobs?since=1h",
  "/jobs?retrying=true",
  "/jobs?class=lock_busy",
  "/jobs?state=SUCCEEDED&topic=rare",
  "/jobs?state=FAILED&topic=topic-7&label=team%3Dteam-7&since=10h",
  "/jobs?topic=topic-3&label=team%3Dteam-3&retrying=true",
  "/dlq",
  "/dlq?topic=topic-10",
  "/dlq?reason=budget",
  "/dlq?error=TypeError",
  "/dlq/groups",
  "/audit",
  "/audit?actor=key-3",
  "/audit?action=approved",
  "/audit?job=j1230",
  "/audit?since=1h",
];
const JOBS = 1_000_000;
const JOBS_QUICK = 20_000;
/** Per filter and round. */
const REQUESTS = 40;
const PROGRAM = fileURLToPath(new URL("../../bin/cordum.mjs", import.meta.url));
