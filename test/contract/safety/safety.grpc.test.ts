// The Safety port over gRPC: our own kernel, and kernels that do not answer. Those of others are in safety.others.test.ts.
import { createServer, type Server as NetServer, type Socket } from "node:net";
import { type ServiceError, status } from "@grpc/grpc-js";
import { afterEach, describe, expect, test } from "vitest";
import { type GrpcSafety, openGrpcSafety } from "../../../src/adapters/grpc/safety.ts";
import { type SafetyServer, startSafetyServer } from "../../../src/adapters/grpc/safety-server.ts";
import { compile } from "../../../src/core/policy/compile.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";
import { builtInKernel, DEFAULT_POLICY, DEMO_POLICY } from "../../../src/core/policy/kernel.ts";
import { quietLog } from "../quiet-log.ts";
import { callKernel, openStrangers, request, type Strangers } from "./safety.peer.ts";

const kernel = () => builtInKernel(DEMO_POLICY, "test");
const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serve(port = 0): Promise<SafetyServer> {
  const server = await startSafetyServer({ kernel: kernel(), log: quietLog, host: "127.0.0.1", port });
  closing.push(() => server.stop());
  return server;
}

function ask(address: string, timeoutMs = 5_000): GrpcSafety["safety"] {
  const opened = openGrpcSafety({ address, timeoutMs: () => timeoutMs });
  closing.push(() => opened.close());
  return opened.safety;
}

async function strangers(handlers: Strangers): ReturnType<typeof openStrangers> {
  const opened = await openStrangers(handlers);
  closing.push(() => opened.server.forceShutdown());
  return opened;
}

const portOf = (address: string) => Number(address.split(":").at(-1));

/** Asks until the kernel is there again: every check waits for an answer, none for a time. */
async function untilDecided(safety: GrpcSafety["safety"]): Promise<number> {
  for (let tries = 1; ; tries++) {
    if ((await safety.check(request("demo.echo"))).kind === "decided") return tries;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("our own kernel", () => {
  test("decides as it would in this process, with all that belongs to a decision", async () => {
    const { address } = await serve();
    const safety = ask(address);
    expect(safety.local).toBeNull();
    const live = kernel();
    for (const topic of ["demo.echo", "demo.forbidden", "demo.approve", "demo.limited"]) {
      const one = request(topic, { input: { a: [1, null] }, labels: { k: "v" } });
      expect(await safety.check(one)).toEqual({ kind: "decided", decision: live.decide(one) });
    }
  });

  test("answers many questions of one tick", async () => {
    const safety = ask((await serve()).address, 60_000);
    const topics = Array.from({ length: 2_000 }, (_, at) => (at % 2 === 0 ? "demo.echo" : "demo.forbidden"));
    const checked = await Promise.all(topics.map((topic) => safety.check(request(topic))));
    const effects = checked.map((one) => (one.kind === "decided" ? one.decision.effect : one.reason));
    expect(effects).toEqual(topics.map((topic) => (topic === "demo.echo" ? "allow" : "deny")));
  });

  test("under load, a policy is replaced between two decisions: each is by one of them, whole", async () => {
    const live = kernel();
    const server = await startSafetyServer({ kernel: live, log: quietLog, host: "127.0.0.1", port: 0 });
    closing.push(() => server.stop());
    const safety = ask(server.address, 60_000);
    const policies = [DEMO_POLICY, DEFAULT_POLICY].map(compile);
    const seen = new Set<string>();
    for (let round = 1; round <= 40; round++) {
      const one = request("demo.forbidden");
      const checks = Array.from({ length: 10 }, () => safety.check(one));
      const snapshot = policies[round % 2] as (typeof policies)[number];
      live.update({ snapshot, source: "", releaseId: null, revision: round });
      for (const checked of await Promise.all(checks)) {
        const decision = checked.kind === "decided" ? checked.decision : null;
        const by = policies.find(({ hash }) => hash === decision?.snapshot);
        expect(by && evaluate(by, one)).toEqual(decision);
        seen.add(decision?.snapshot ?? "");
      }
    }
    expect(seen.size).toBe(2);
  });

  test("a malformed question spoils none of those that are asked with it", async () => {
    const safety = ask((await serve()).address);
    const asked = ["demo.echo", "", "demo.forbidden"].map((topic) => safety.check(request(topic)));
    const [one, bad, other] = await Promise.allSettled(asked);
    expect(one).toMatchObject({ value: { decision: { effect: "allow" } } });
    expect(bad).toMatchObject({ reason: { message: expect.stringContaining("INVALID_ARGUMENT") } });
    expect(other).toMatchObject({ value: { decision: { effect: "deny" } } });
  });

  test("what cannot be said is thrown: it is no outage", async () => {
    const safety = ask((await serve()).address);
    await expect(safety.check(request("demo.echo", { priority: "soon" }))).rejects.toThrow("priority");
    await expect(safety.check(request(""))).rejects.toThrow("INVALID_ARGUMENT");
    await expect(safety.check(request("demo.echo", { input: "x".repeat(5_000_000) }))).rejects.toThrow("limit");
    expect(await safety.check(request("demo.echo"))).toMatchObject({ kind: "decided" });
  });

  test("nobody there: unavailable; back again on the same port: found, without waiting for anything", async () => {
    const first = await serve();
    const safety = ask(first.address);
    expect(await untilDecided(safety)).toBe(1);
    await first.stop();
    const gone = await safety.check(request("demo.echo"));
    expect(gone).toMatchObject({ kind: "unavailable" });
    expect(gone.kind === "unavailable" && gone.reason).toContain("cannot be reached");
    await serve(portOf(first.address));
    await untilDecided(safety);
  });

  test("a kernel that was not there at the start is found when it comes", async () => {
    const { address, stop } = await startSafetyServer({ kernel: kernel(), log: quietLog, host: "127.0.0.1", port: 0 });
    await stop();
    const safety = ask(address);
    expect(await safety.check(request("demo.echo"))).toEqual({
      kind: "unavailable",
      reason: "the kernel cannot be reached: connection refused",
    });
    await serve(portOf(address));
    await untilDecided(safety);
  });

  test("our own shutdown is no outage", async () => {
    const opened = openGrpcSafety({ address: (await serve()).address, timeoutMs: () => 5_000 });
    opened.close();
    await expect(opened.safety.check(request("demo.echo"))).rejects.toThrow("shutting down");
  });

  test("says which snapshots there are, explains, and refuses bytes that are none", async () => {
    const { address } = await serve();
    const hash = compile(DEMO_POLICY).hash;
    expect(await callKernel(address, "ListSnapshots", "ListSnapshotsRequest", {})).toEqual({ snapshots: [hash] });
    const explained = await callKernel(address, "Explain", "PolicyCheckRequest", { topic: "demo.approve" });
    expect(explained).toMatchObject({ decision: 3, ruleId: "approve-demo-approve", policySnapshot: hash });
    expect(JSON.parse(String(explained.explanation)).tried[0]).toMatchObject({ ruleId: "deny-demo-forbidden" });
    for (const method of ["Check", "Evaluate", "Simulate"]) {
      const answer = await callKernel(address, method, "PolicyCheckRequest", { topic: "demo.forbidden" });
      expect(answer).toMatchObject({ decision: 2, ruleId: "deny-demo-forbidden" });
    }
    const bad = callKernel(address, "Check", null, Buffer.from([0xff]));
    await expect(bad).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
  });
});

describe("a kernel that does not answer", () => {
  test("one that hangs is unavailable after the time allowed, and a new connection finds its successor", async () => {
    // Takes connections and says nothing, for ever: what is behind it may be stopped, or gone without a word.
    const sockets = new Set<Socket>();
    const mute: NetServer = createServer((socket) => {
      sockets.add(socket.on("error", () => {}));
    });
    await new Promise<void>((resolve) => mute.listen(0, "127.0.0.1", resolve));
    const { port } = mute.address() as { port: number };
    closing.push(() => {
      for (const socket of sockets) socket.destroy();
    });
    const safety = ask(`127.0.0.1:${port}`, 50);
    for (let at = 0; at < 4; at++) {
      expect(await safety.check(request("demo.echo"))).toEqual({
        kind: "unavailable",
        reason: "the kernel gave no answer within 50 ms",
      });
    }
    // The old connections stay open and mute; only a new one reaches the kernel that now has the port.
    mute.close();
    await serve(port);
    await untilDecided(safety);
    expect([...sockets].some((socket) => !socket.destroyed)).toBe(true);
  });

  test("one that takes the call and hangs is unavailable, too", async () => {
    const { address } = await strangers({ Check: () => {} });
    expect(await ask(address, 50).check(request("demo.echo"))).toMatchObject({ kind: "unavailable" });
  });

  test.each([
    [status.UNAVAILABLE, "cannot be reached"],
    [status.CANCELLED, "gave up the call"],
  ])("one that ends the call with %i is unavailable", async (code, words) => {
    const { address } = await strangers({ Check: (_, done) => done({ code, details: "no" } as ServiceError) });
    const checked = await ask(address).check(request("demo.echo"));
    expect(checked.kind === "unavailable" && checked.reason).toContain(words);
  });

  test.each([status.INVALID_ARGUMENT, status.PERMISSION_DENIED, status.INTERNAL, status.UNIMPLEMENTED])(
    "one that answers with %i has answered: thrown",
    async (code) => {
      const { address } = await strangers({ Check: (_, done) => done({ code, details: "because" } as ServiceError) });
      await expect(ask(address).check(request("demo.echo"))).rejects.toThrow("because");
    },
  );

  test("one that dies with calls under way: each of them is unavailable", async () => {
    let taken = 0;
    let all = () => {};
    const under = new Promise<void>((resolve) => (all = resolve));
    const { address, server } = await strangers({ Check: () => ++taken === 3 && all() });
    const safety = ask(address, 60_000);
    const checks = [1, 2, 3].map(() => safety.check(request("demo.echo")));
    await under;
    server.forceShutdown();
    for (const checked of await Promise.all(checks)) expect(checked).toMatchObject({ kind: "unavailable" });
  });
});
