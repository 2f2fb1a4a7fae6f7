// One suite on the two ways in which the control plane is run: real processes, real workers, and what an operator sees.
import { afterAll, beforeAll, describe } from "vitest";
import { clusterSetup, embeddedSetup, type Setup } from "../deployments.ts";
import { peopleCases } from "./approval-cases.ts";
import { leverCases } from "./control-cases.ts";
import { jobCases } from "./job-cases.ts";

const SETUPS = [
  ["one process, a worker over HTTP and one inside", embeddedSetup],
  ["two gateways, three controls, a safety kernel, on NATS and Redis", clusterSetup],
] as const;

describe.each(SETUPS)("%s", (_, open) => {
  let setup: Setup;

  beforeAll(async () => {
    setup = await open();
  });
  afterAll(() => setup?.stop());

  jobCases(() => setup);
  peopleCases(() => setup);
  // The audit log is changed by the last of these.
  leverCases(() => setup);
});
