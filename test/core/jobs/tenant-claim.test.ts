import { expect, test } from "vitest";
import { tenantClaimProblem } from "../../../src/core/jobs/submission.ts";
import type { Origin, Packet } from "../../../src/protocol/packet.ts";

const settings = { unsignedTenants: ["default"], senders: { w1: { keyFile: "w1.pem", tenants: ["acme"] } } };

function refusal(org: string, origin?: Origin): string | null {
  const packet: Packet = { traceId: "", senderId: "w1", createdAtMs: 0, body: { kind: "job_cancel", jobId: "j" } };
  return tenantClaimProblem(origin ? { ...packet, origin } : packet, org, settings);
}

const signedBy = (id: string | null): Origin => ({ kind: "arrived", bytes: new Uint8Array(), signedBy: id });

test("a signed packet may submit for the tenants of its sender only", () => {
  expect(refusal("acme", signedBy("w1"))).toBeNull();
  expect(refusal("default", signedBy("w1"))).toContain("add the tenant to `cap.senders.w1.tenants`");
  expect(refusal("birch", signedBy("w1"))).toContain("sender `w1` may not act for tenant `birch`");
});

test("a removed sender may submit for no tenant", () => {
  expect(refusal("acme", signedBy("w2"))).toContain("sender `w2`");
});

test("a bare sender id, our own signature and a stored packet grant no tenant", () => {
  for (const origin of [undefined, signedBy(null), { kind: "kept", base64: "" } as const]) {
    expect(refusal("default", origin)).toBeNull();
    expect(refusal("acme", origin)).toContain("an unsigned packet may not act for tenant `acme`");
  }
});
