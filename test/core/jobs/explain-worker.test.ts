import { expect, test } from "vitest";
import { type ExplainedWorker, explainWorker, type WorkerContext } from "../../../src/core/jobs/explain-worker.ts";

const worker: ExplainedWorker = {
  pool: "gpu",
  topics: ["job.render"],
  poolTopics: [],
  activeJobs: 0,
  maxParallelJobs: 2,
  silentMs: null,
  leasesEndMs: [],
  isLeaving: false,
  isUnsupported: false,
};
const around: WorkerContext = { silentAtMs: 30_000, isDraining: false, killed: null, breaker: null, waiting: [] };
const KILLED = { scope: "acme", by: "ops", reason: "test" };

test.each([
  ["idle", {}, {}, ["no job waits"]],
  ["working", { activeJobs: 1 }, { waiting: [["render", 1]] }, ["1 job waits for `render`"]],
  ["full", { activeJobs: 2 }, { waiting: [["render", 3]] }, ["2 of 2", "3 jobs wait for `render`"]],
  ["leaving", { isLeaving: true }, { waiting: [["render", 3]] }, ["shuts down"]],
  ["blocked", { isUnsupported: true }, {}, ["protocol versions", "no job waits"]],
  ["blocked", { topics: [] }, {}, ["`pools.gpu.topics` names none", "no job waits"]],
  ["idle", { topics: [], poolTopics: ["render.*"] }, {}, ["no job waits"]],
  [
    "blocked",
    {},
    { isDraining: true, killed: KILLED, breaker: "open" },
    ["draining", "tenant `acme`", "open", "no job"],
  ],
] as const)("%s: %o %o", (state, changes, context, expected) => {
  const explained = explainWorker({ ...worker, ...changes }, { ...around, ...context });
  expect(explained.state).toBe(state);
  expect(explained.reasons).toHaveLength(expected.length + 1);
  for (const [at, text] of expected.entries()) expect(explained.reasons[at]?.reason).toContain(text);
  expect(explained.reasons.at(-1)?.reason).toContain("1970-01-01T00:00:30.000Z");
});

test("a silent worker gets no jobs, and is listed until its leases end", () => {
  const silent = { ...worker, silentMs: 40_000, leasesEndMs: [1_000, 60_000] };
  const { state, reasons } = explainWorker(silent, around);
  expect(state).toBe("silent");
  expect(reasons[0]?.reason).toMatch(/silent for 40 s.*1970-01-01T00:01:00.000Z at the latest/);
});
