// One suite for both deployments, with real processes and workers, from the operator's point of view.
import { afterAll, beforeAll, describe } from "vitest";
import { type Deployment, startCluster, startEmbedded } from "../deployments.ts";
import { approvalCases } from "./approval-cases.ts";
import { controlCases } from "./control-cases.ts";
import { jobCases } from "./job-cases.ts";

const DEPLOYMENTS = [
  ["one process, a worker over HTTP and an internal one", startEmbedded],
  ["two gateways, three control processes and a safety kernel on NATS and Redis", startCluster],
] as const;

describe.each(DEPLOYMENTS)("%s", (_, start) => {
  let deployment: Deployment;

  beforeAll(async () => {
    deployment = await start();
  });
  afterAll(() => deployment?.stop());

  jobCases(() => deployment);
  approvalCases(() => deployment);
  // Last, because its last case tampers with the audit log.
  controlCases(() => deployment);
});
