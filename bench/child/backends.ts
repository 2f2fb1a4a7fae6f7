import type { OpenBackend } from "./backend.ts";
import { openCordumJobs } from "./cordum/jobs.ts";
import { openCordumRuns } from "./cordum/runs.ts";
import { openBullmq } from "./peers/bullmq.ts";
import { openBullmqRuns } from "./peers/bullmq-runs.ts";
import { openDbosRuns } from "./peers/dbos.ts";

/** The systems compared by single jobs. */
export const openJobBackend: OpenBackend = (spec, role, events) => {
  switch (spec.kind) {
    case "bullmq":
      return openBullmq(spec, role, events);
    case "cluster":
    case "embedded":
      return openCordumJobs(spec, role, events);
    case "dbos":
      throw new Error("DBOS is measured with runs only");
    default:
      return spec satisfies never;
  }
};

/** The systems compared by runs of three steps, always in one process. */
export const openRunBackend: OpenBackend = async (spec, role, events) => {
  if (role !== "all") throw new Error(`runs are measured in one process, not with a separate ${role}`);
  switch (spec.kind) {
    case "bullmq":
      return openBullmqRuns(spec, events);
    case "dbos":
      return openDbosRuns(spec, events);
    case "cluster":
    case "embedded":
      return openCordumRuns(spec, events);
    default:
      return spec satisfies never;
  }
};
