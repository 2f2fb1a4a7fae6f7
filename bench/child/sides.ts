import { openOurs } from "./ours/ours.ts";
import { openBullmq } from "./peers/bullmq.ts";
import type { OpenSide } from "./side.ts";

export const openSide: OpenSide = (spec, role, events) => {
  switch (spec.kind) {
    case "bullmq":
      return openBullmq(spec, role, events);
    case "cluster":
    case "embedded":
      return openOurs(spec, role, events);
    case "dbos":
      throw new Error("DBOS is measured with runs alone");
    default:
      return spec satisfies never;
  }
};
