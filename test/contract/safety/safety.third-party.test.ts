// Third-party kernels over gRPC: servers that know only paths and field numbers.
import { type ServiceError, status } from "@grpc/grpc-js";
import { afterEach, describe, expect, test } from "vitest";
import { openGrpcSafety } from "../../../src/adapters/grpc/safety.ts";
import type { Safety } from "../../../src/ports/safety.ts";
import { decideFrame } from "../../../src/protocol/safety-frame.ts";
import { openThirdParty, request, type ThirdPartyHandlers } from "./safety.peer.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close();
});

function connect(address: string): Safety {
  const opened = openGrpcSafety({ address, timeoutMs: () => 5_000 });
  closing.push(() => opened.close());
  return opened.safety;
}

async function thirdParty(handlers: ThirdPartyHandlers): ReturnType<typeof openThirdParty> {
  const opened = await openThirdParty(handlers);
  closing.push(() => opened.server.forceShutdown());
  return opened;
}

describe("a third-party kernel", () => {
  const answering = (bytes: number[]) => thirdParty({ Check: (_, done) => done(null, Buffer.from(bytes)) });

  test.each([
    ["ALLOW", [0x08, 1], "allow"],
    ["DENY with a reason and a rule", [0x08, 2, 0x12, 2, 0x6e, 0x6f, 0x2a, 1, 0x72], "deny"],
    ["REQUIRE_HUMAN", [0x08, 3], "require_approval"],
    ["THROTTLE", [0x08, 4], "throttle"],
    ["ALLOW_WITH_CONSTRAINTS", [0x08, 5, 0x32, 4, 0x0a, 2, 0x10, 1], "allow_with_constraints"],
    ["QUARANTINE", [0x08, 6], "deny"],
    ["REDACT", [0x08, 7], "deny"],
    ["ALLOW with an unknown field", [0x08, 1, 0xf8, 0x07, 1], "allow"],
  ])("can decide %s", async (_, bytes, effect) => {
    const { address } = await answering(bytes);
    expect(await connect(address).check(request("t"))).toMatchObject({ kind: "decided", decision: { effect } });
  });

  test.each([
    ["an empty message", []],
    ["malformed bytes", [0x08]],
    ["an unknown decision", [0x08, 99]],
  ])("that responds with %s makes the check throw", async (_, bytes) => {
    const { address } = await answering(bytes);
    await expect(connect(address).check(request("t"))).rejects.toThrow();
  });

  test("without frames receives single checks, at once and afterwards", async () => {
    let calls = 0;
    const { address } = await thirdParty({ Check: (_, done) => done(null, Buffer.from([0x08, 1 + (calls++ % 2)])) });
    const safety = connect(address);
    for (const sum of [3, 6]) {
      const checked = await Promise.all([1, 2, 3].map(() => safety.check(request("t"))));
      expect(checked.map(({ kind }) => kind)).toEqual(["decided", "decided", "decided"]);
      expect(calls).toBe(sum);
    }
  });

  test("with frames receives the checks of a tick in one call; a rejected frame is sent as single checks", async () => {
    const calls = { frames: 0, single: 0 };
    let isRejecting = false;
    const { address } = await thirdParty({
      Check: (_, done) => {
        calls.single++;
        done(null, Buffer.from([0x08, 1]));
      },
      frames: ({ request: frame }, done) => {
        calls.frames++;
        if (isRejecting) done({ code: status.INTERNAL, details: "too large" } as ServiceError);
        else done(null, Buffer.from(decideFrame(frame, () => Uint8Array.of(0x08, 2))));
      },
    });
    const safety = connect(address);
    const effects = async () =>
      (await Promise.all([1, 2, 3].map(() => safety.check(request("t"))))).map((one) =>
        one.kind === "decided" ? one.decision.effect : one.kind,
      );
    expect(await effects()).toEqual(["deny", "deny", "deny"]);
    expect(calls).toEqual({ frames: 1, single: 0 });
    isRejecting = true;
    expect(await effects()).toEqual(["allow", "allow", "allow"]);
    expect(calls).toEqual({ frames: 2, single: 3 });
  });

  test("receives the fields under their numbers", async () => {
    let seen: Buffer = Buffer.alloc(0);
    const { address } = await thirdParty({
      Check: (call, done) => {
        seen = call.request;
        done(null, Buffer.from([0x08, 1]));
      },
    });
    await connect(address).check(request("a.b", { jobId: "job", org: "acme", actorId: "me" }));
    const at = (tag: number, text: string) => seen.includes(Buffer.from([tag, text.length, ...Buffer.from(text)]));
    expect([at(0x0a, "job"), at(0x12, "a.b"), at(0x1a, "acme"), at(0x3a, "me")]).toEqual([true, true, true, true]);
  });
});
