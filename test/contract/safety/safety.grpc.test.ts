// The Safety port over gRPC: the Cordum kernel, and kernels that do not respond. See also safety.third-party.test.ts.
import { createServer, type Server as NetServer, type Socket } from "node:net";
import { type ServiceError, status } from "@grpc/grpc-js";
import { afterEach, describe, expect, test } from "vitest";
import { type GrpcSafety, openGrpcSafety } from "../../../src/adapters/grpc/safety.ts";
import { type SafetyServer, startSafetyServer } from "../../../src/adapters/grpc/safety-server.ts";
import { compile } from "../../../src/core/policy/compile.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";
import { builtInKernel, DEFAULT_POLICY, DEMO_POLICY } from "../../../src/core/policy/kernel.ts";
import { policy } from "../../core/policy/samples.ts";
import { quietLog } from "../quiet-log.ts";
import { callKernel, openThirdParty, request, type ThirdPartyHandlers } from "./safety.peer.ts";

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

function connect(address: string, timeoutMs = 5_000): GrpcSafety["safety"] {
  const opened = openGrpcSafety({ address, timeoutMs: () => timeoutMs });
  closing.push(() => opened.close());
  return opened.safety;
}

async function thirdParty(handlers: ThirdPartyHandlers): ReturnType<typeof openThirdParty> {
  const opened = await openThirdParty(handlers);
  closing.push(() => opened.server.forceShutdown());
  return opened;
}

const portOf = (address: string) => Number(address.split(":").at(-1));

/** Repeats a check until the kernel responds, without sleeping. */
async function untilDecided(safety: GrpcSafety["safety"]): Promise<number> {
  for (let tries = 1; ; tries++) {
    if ((await safety.check(request("demo.echo"))).kind === "decided") return tries;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("the Cordum kernel", () => {
  test("returns the same decisions as in process, with all fields", async () => {
    const { address } = await serve();
    const safety = connect(address);
    expect(safety.local).toBeNull();
    const live = kernel();
    for (const topic of ["demo.echo", "demo.forbidden", "demo.approve", "demo.limited"]) {
      const one = request(topic, { input: { a: [1, null] }, labels: { k: "v" }, nowMs: 1_700_000_000_000 });
      expect(await safety.check(one)).toEqual({ kind: "decided", decision: live.decide(one) });
    }
  });

  test("evaluates for the time of the check, and returns what shadow rules would have decided", async () => {
    const rules = [
      { decision: "deny", match: { when: "now.getHours() >= 22" }, shadow: true },
      { decision: "require_approval", match: { when: "labels.absent == 'x'" }, shadow: true },
      { decision: "throttle", match: { when: "now.getHours() < 6" } },
      {},
    ] as const;
    const live = builtInKernel(policy(rules), "test");
    const server = await startSafetyServer({ kernel: live, log: quietLog, host: "127.0.0.1", port: 0 });
    closing.push(() => server.stop());
    const safety = connect(server.address);
    const decided = async (at: string) => {
      const one = request("demo.echo", { nowMs: Date.parse(at) });
      const checked = await safety.check(one);
      expect(checked).toEqual({ kind: "decided", decision: live.decide(one) });
      return checked.kind === "decided" ? checked.decision : null;
    };
    expect(await decided("2026-03-02T23:00:00Z")).toMatchObject({
      effect: "allow",
      isTimed: true,
      shadow: [
        { ruleId: "r0", effect: "deny" },
        { effect: "require_approval", fault: "no such key: absent" },
      ],
    });
    expect(await decided("2026-03-02T05:00:00Z")).toMatchObject({ effect: "throttle", shadow: [{ ruleId: "r1" }] });
    // A caller of an earlier version sends no time.
    const untimed = await safety.check(request("demo.echo"));
    expect(untimed.kind === "decided" && Math.abs((untimed.decision.atMs ?? 0) - Date.now())).toBeLessThan(60_000);
  });

  test("decides many checks of one tick", async () => {
    const safety = connect((await serve()).address, 60_000);
    const topics = Array.from({ length: 2_000 }, (_, at) => (at % 2 === 0 ? "demo.echo" : "demo.forbidden"));
    const checked = await Promise.all(topics.map((topic) => safety.check(request(topic))));
    const effects = checked.map((one) => (one.kind === "decided" ? one.decision.effect : one.reason));
    expect(effects).toEqual(topics.map((topic) => (topic === "demo.echo" ? "allow" : "deny")));
  });

  test("decides each check by one snapshot while policies are replaced under load", async () => {
    const live = kernel();
    const server = await startSafetyServer({ kernel: live, log: quietLog, host: "127.0.0.1", port: 0 });
    closing.push(() => server.stop());
    const safety = connect(server.address, 60_000);
    const policies = [DEMO_POLICY, DEFAULT_POLICY].map(compile);
    const seen = new Set<string>();
    for (let round = 1; round <= 40; round++) {
      const one = request("demo.forbidden", { nowMs: 1_700_000_000_000 });
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

  test("rejects a malformed check without affecting others of its batch", async () => {
    const safety = connect((await serve()).address);
    const checks = ["demo.echo", "", "demo.forbidden"].map((topic) => safety.check(request(topic)));
    const [one, bad, other] = await Promise.allSettled(checks);
    expect(one).toMatchObject({ value: { decision: { effect: "allow" } } });
    expect(bad).toMatchObject({ reason: { message: expect.stringContaining("INVALID_ARGUMENT") } });
    expect(other).toMatchObject({ value: { decision: { effect: "deny" } } });
  });

  test("throws for a check that cannot be encoded: that is not an outage", async () => {
    const safety = connect((await serve()).address);
    await expect(safety.check(request("demo.echo", { priority: "soon" }))).rejects.toThrow("priority");
    await expect(safety.check(request(""))).rejects.toThrow("INVALID_ARGUMENT");
    await expect(safety.check(request("demo.echo", { input: "x".repeat(5_000_000) }))).rejects.toThrow("limit");
    expect(await safety.check(request("demo.echo"))).toMatchObject({ kind: "decided" });
  });

  test("is unavailable while it is stopped, and found again on the same port", async () => {
    const first = await serve();
    const safety = connect(first.address);
    expect(await untilDecided(safety)).toBe(1);
    await first.stop();
    const gone = await safety.check(request("demo.echo"));
    expect(gone).toMatchObject({ kind: "unavailable" });
    expect(gone.kind === "unavailable" && gone.reason).toContain("kernel unreachable");
    await serve(portOf(first.address));
    await untilDecided(safety);
  });

  test("answers a probe without a check, and a probe says at once that it is stopped", async () => {
    const server = await serve();
    const safety = connect(server.address);
    expect(await safety.probe?.()).toBeNull();
    await server.stop();
    expect(await safety.probe?.()).toContain("kernel unreachable");
  });

  test("is found when it starts after the client", async () => {
    const { address, stop } = await startSafetyServer({ kernel: kernel(), log: quietLog, host: "127.0.0.1", port: 0 });
    await stop();
    const safety = connect(address);
    expect(await safety.check(request("demo.echo"))).toEqual({
      kind: "unavailable",
      reason: "kernel unreachable: connection refused",
    });
    await serve(portOf(address));
    await untilDecided(safety);
  });

  test("throws after the client was closed: that is not an outage", async () => {
    const opened = openGrpcSafety({ address: (await serve()).address, timeoutMs: () => 5_000 });
    opened.close();
    await expect(opened.safety.check(request("demo.echo"))).rejects.toThrow("shutting down");
  });

  test("lists snapshots, explains, and rejects malformed requests", async () => {
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

describe("a kernel that does not respond", () => {
  test("is unavailable after the timeout, and its successor is found by a new connection", async () => {
    // Accepts connections and never responds.
    const sockets = new Set<Socket>();
    const hung: NetServer = createServer((socket) => {
      sockets.add(socket.on("error", () => {}));
    });
    await new Promise<void>((resolve) => hung.listen(0, "127.0.0.1", resolve));
    const { port } = hung.address() as { port: number };
    closing.push(() => {
      for (const socket of sockets) socket.destroy();
    });
    const safety = connect(`127.0.0.1:${port}`, 50);
    expect(await safety.probe?.()).toBe("no response from the kernel within 50 ms");
    for (let at = 0; at < 4; at++) {
      expect(await safety.check(request("demo.echo"))).toEqual({
        kind: "unavailable",
        reason: "no response from the kernel within 50 ms",
      });
    }
    // The old connections stay open; only a new connection reaches the new kernel on the port.
    hung.close();
    await serve(port);
    await untilDecided(safety);
    expect([...sockets].some((socket) => !socket.destroyed)).toBe(true);
  });

  test("is unavailable if it accepts the call and hangs", async () => {
    const { address } = await thirdParty({ Check: () => {} });
    expect(await connect(address, 50).check(request("demo.echo"))).toMatchObject({ kind: "unavailable" });
  });

  test("is up if it rejects a probe", async () => {
    const { address } = await thirdParty({ Check: () => {} });
    expect(await connect(address).probe?.()).toBeNull();
  });

  test.each([
    [status.UNAVAILABLE, "kernel unreachable"],
    [status.CANCELLED, "cancelled the call"],
  ])("is unavailable if it ends the call with status %i", async (code, reason) => {
    const { address } = await thirdParty({ Check: (_, done) => done({ code, details: "no" } as ServiceError) });
    const checked = await connect(address).check(request("demo.echo"));
    expect(checked.kind === "unavailable" && checked.reason).toContain(reason);
  });

  test.each([status.INVALID_ARGUMENT, status.PERMISSION_DENIED, status.INTERNAL, status.UNIMPLEMENTED])(
    "throws for status %i: the kernel has responded",
    async (code) => {
      const { address } = await thirdParty({ Check: (_, done) => done({ code, details: "because" } as ServiceError) });
      await expect(connect(address).check(request("demo.echo"))).rejects.toThrow("because");
    },
  );

  test("is unavailable for calls in progress when it dies", async () => {
    let taken = 0;
    let all = () => {};
    const allTaken = new Promise<void>((resolve) => (all = resolve));
    const { address, server } = await thirdParty({ Check: () => ++taken === 3 && all() });
    const safety = connect(address, 60_000);
    const checks = [1, 2, 3].map(() => safety.check(request("demo.echo")));
    await allTaken;
    server.forceShutdown();
    for (const checked of await Promise.all(checks)) expect(checked).toMatchObject({ kind: "unavailable" });
  });
});
