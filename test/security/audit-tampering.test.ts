import { afterAll, beforeAll, describe } from "vitest";
import { recordAudit } from "../../src/engine/audit/index.ts";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";
import { type Subject, tamperingCases } from "./audit-tampering.ts";

describe("tampering with the audit log of an embedded control plane", () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await openTestGateway();
  });
  afterAll(() => gateway.close());

  tamperingCases(
    (): Subject => ({
      store: gateway.world.store,
      async get(path) {
        const response = await gateway.call("GET", `/api/v1${path}`);
        return { status: response.statusCode, body: response.json() };
      },
      async write(count) {
        for (let at = 0; at < count; at++) {
          recordAudit(gateway.engine, { org: "default", kind: "policy", who: "k", what: `line ${at}` });
        }
        await gateway.world.store.counts("audit_pending", 1); // After the commit of this tick.
      },
    }),
  );
});
