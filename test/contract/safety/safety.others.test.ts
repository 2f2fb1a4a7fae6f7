// Kernels of others, asked over gRPC: bare servers that know paths and field numbers only.
import { type ServiceError, status } from "@grpc/grpc-js";
import { afterEach, describe, expect, test } from "vitest";
import { openGrpcSafety } from "../../../src/adapters/grpc/safety.ts";
import type { Safety } from "../../../src/ports/safety.ts";
import { answerChecks } from "../../../src/protocol/safety-frame.ts";
import { openStrangers, request, type Strangers } from "./safety.peer.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close();
});

function ask(address: string): Safety {
  const opened = openGrpcSafety({ address, timeoutMs: () => 5_000 });
  closing.push(() => opened.close());
  return opened.safety;
}

async function strangers(handlers: Strangers): ReturnType<typeof openStrangers> {
  const opened = await openStrangers(handlers);
  closing.push(() => opened.server.forceShutdown());
  return opened;
}

describe("a kernel of others", () => {
  const answering = (bytes: number[]) => strangers({ Check: (_, done) => done(null, Buffer.from(bytes)) });

  test.each([
    ["ALLOW", [0x08, 1], "allow"],
    ["DENY with a reason and a rule", [0x08, 2, 0x12, 2, 0x6e, 0x6f, 0x2a, 1, 0x72], "deny"],
    ["REQUIRE_HUMAN", [0x08, 3], "require_approval"],
    ["THROTTLE", [0x08, 4], "throttle"],
    ["ALLOW_WITH_CONSTRAINTS", [0x08, 5, 0x32, 4, 0x0a, 2, 0x10, 1], "allow_with_constraints"],
    ["QUARANTINE", [0x08, 6], "deny"],
    ["REDACT", [0x08, 7], "deny"],
    ["ALLOW, with a field that we do not know", [0x08, 1, 0xf8, 0x07, 1], "allow"],
  ])("%s", async (_, bytes, effect) => {
    const { address } = await answering(bytes);
    expect(await ask(address).check(request("t"))).toMatchObject({ kind: "decided", decision: { effect } });
  });

  test.each([
    ["nothing", []],
    ["bytes that are none", [0x08]],
    ["a decision of a later version", [0x08, 99]],
  ])("that answers %s is neither obeyed nor taken for absent", async (_, bytes) => {
    const { address } = await answering(bytes);
    await expect(ask(address).check(request("t"))).rejects.toThrow();
  });

  test("that knows nothing of frames is asked one by one, in the same tick and afterwards", async () => {
    let asked = 0;
    const { address } = await strangers({ Check: (_, done) => done(null, Buffer.from([0x08, 1 + (asked++ % 2)])) });
    const safety = ask(address);
    for (const sum of [3, 6]) {
      const checked = await Promise.all([1, 2, 3].map(() => safety.check(request("t"))));
      expect(checked.map(({ kind }) => kind)).toEqual(["decided", "decided", "decided"]);
      expect(asked).toBe(sum);
    }
  });

  test("checks of one tick are one call where frames are known; a frame that is refused is asked one by one", async () => {
    const calls = { frames: 0, single: 0 };
    let isBroken = false;
    const { address } = await strangers({
      Check: (_, done) => {
        calls.single++;
        done(null, Buffer.from([0x08, 1]));
      },
      frames: ({ request: frame }, done) => {
        calls.frames++;
        if (isBroken) done({ code: status.INTERNAL, details: "too large" } as ServiceError);
        else done(null, Buffer.from(answerChecks(frame, () => Uint8Array.of(0x08, 2))));
      },
    });
    const safety = ask(address);
    const effects = async () =>
      (await Promise.all([1, 2, 3].map(() => safety.check(request("t"))))).map((one) =>
        one.kind === "decided" ? one.decision.effect : one.kind,
      );
    expect(await effects()).toEqual(["deny", "deny", "deny"]);
    expect(calls).toEqual({ frames: 1, single: 0 });
    isBroken = true;
    expect(await effects()).toEqual(["allow", "allow", "allow"]);
    expect(calls).toEqual({ frames: 2, single: 3 });
  });

  test("gets the fields where it looks for them", async () => {
    let seen: Buffer = Buffer.alloc(0);
    const { address } = await strangers({
      Check: (call, done) => {
        seen = call.request;
        done(null, Buffer.from([0x08, 1]));
      },
    });
    await ask(address).check(request("a.b", { jobId: "job", org: "acme", actorId: "me" }));
    const at = (tag: number, text: string) => seen.includes(Buffer.from([tag, text.length, ...Buffer.from(text)]));
    expect([at(0x0a, "job"), at(0x12, "a.b"), at(0x1a, "acme"), at(0x3a, "me")]).toEqual([true, true, true, true]);
  });
});
