import { openOurRuns } from "./ours/our-runs.ts";
import { openBullmqRuns } from "./peers/bullmq-runs.ts";
import { openDbosRuns } from "./peers/dbos.ts";
import type { OpenSide } from "./side.ts";

/** The systems that are compared by runs of three steps; always in one process. */
export const openRunSide: OpenSide = async (spec, role, events) => {
  if (role !== "all") throw new Error(`runs are measured in one process, not by a ${role} of its own`);
  switch (spec.kind) {
    case "bullmq":
      return openBullmqRuns(spec, events);
    case "dbos":
      return openDbosRuns(spec, events);
    case "cluster":
    case "embedded":
      return openOurRuns(spec, events);
    default:
      return spec satisfies never;
  }
};
