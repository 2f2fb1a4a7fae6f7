import { verify } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SignedCodec } from "../../src/adapters/node/packet-signatures.ts";
import { defaultSettings } from "../../src/config/config.ts";
import { dispatchJob } from "../../src/core/jobs/attempt.ts";
import { decideSafety, newJob } from "../../src/core/jobs/lifecycle.ts";
import { checkSubmission } from "../../src/core/jobs/submission.ts";
import { openWorkPacket } from "../../src/engine/packets.ts";
import type { Packet } from "../../src/protocol/packet.ts";
import { signer } from "../adapters/node/signers.ts";
import { packet as anyPacket } from "./arbitraries.ts";
import { reencodedWithoutSignature, wireDecode } from "./cap-wire.ts";

const us = signer();
const codec = new SignedCodec({
  mode: "enforce",
  key: us.privateKey,
  ours: [us.publicKey],
  senders: () => new Map(),
  log: { write: () => undefined },
});

function isVerifiedBySdk(packet: Packet): boolean {
  const sent = codec.encode(packet);
  return (["as decoded", "sorted"] as const).every((maps) => {
    const { bytes, signature } = reencodedWithoutSignature(sent, maps);
    return verify("sha256", bytes, { key: us.publicKey, dsaEncoding: "der" }, signature);
  });
}

/** The library orders integer-like keys by number, and does not keep `__proto__`. */
const isPortable = (value: unknown): boolean => {
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(
    ([name, inner]) => (Array.isArray(value) || !/^(\d+|__proto__)$/.test(name)) && isPortable(inner),
  );
};

describe("a signature is verified by an SDK that decodes the packet, clears the signature and encodes it again", () => {
  test("for any packet to a worker that did not ask for extensions", () => {
    fc.assert(
      fc.property(anyPacket.filter(isPortable), (packet) => {
        const { body } = packet;
        // Workers do not receive progress reports.
        if (body.kind !== "job_progress") expect(isVerifiedBySdk({ ...packet, isOpen: true })).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  test("for a job with every field", () => {
    const checked = checkSubmission({
      topic: "t",
      input: { a: 1 },
      labels: { zeta: "1", alpha: "", ü: "x", "😀": "y", "\uffee": "z" },
      riskTags: ["net", ""],
      traceparent: `00-${"ab".repeat(16)}-${"cd".repeat(8)}-01`,
      details: { env: { B: "2", A: "" }, budget: { deadlineMs: 5_000 }, contextHints: { allowRetrieval: true } },
    });
    if (checked.kind === "bad") throw new Error(checked.problems.join());
    const context = { nowMs: 1_700_000_000_000, settings: defaultSettings(), random: () => 0.5 };
    const decision = {
      effect: "allow_with_constraints",
      ruleId: "r",
      reason: "",
      snapshot: "s",
      constraints: { budgets: { maxRuntimeMs: 5 } },
    } as const;
    const created = newJob(checked.submission, { jobId: "j", traceId: "t" }, { kind: "inline", value: 1 }, context);
    const job = dispatchJob(decideSafety(created, decision, context), context);
    const packet = openWorkPacket("c1", job, "key");
    expect(isVerifiedBySdk(packet)).toBe(true);
    const { jobRequest } = wireDecode(codec.encode(packet));
    expect(jobRequest).toMatchObject({
      jobId: "j",
      env: { A: "", B: "2", CORDUM_CONSTRAINTS: '{"budgets":{"max_runtime_ms":5}}' },
      budget: { deadlineMs: 5_000 },
    });
  });
});
