// The way to the safety kernel over real connections: who is let in, who is believed, and what becomes of a check otherwise.
import { createServer } from "node:net";
import { type ServiceError, status } from "@grpc/grpc-js";
import { afterEach, describe, expect, test, vi } from "vitest";
import { callKernel, openStrangers, request } from "../../contract/safety/safety.peer.ts";
import { CA, CALLER, KeptLog, Line, OWN, pem, TOKEN } from "./client.fixtures.ts";

const line = new Line();
afterEach(() => vi.unstubAllEnvs());

const ECHO = () => request("demo.echo");
const DECIDED = { kind: "decided", decision: { effect: "allow" } };
const UNKNOWN = {
  kind: "unavailable",
  reason: "the kernel does not know this process: `safety.token` is missing or wrong",
};
const UNTRUSTED = {
  kind: "unavailable",
  reason: "the kernel cannot be reached: no connection that both sides trust (`safety.tls.*`)",
};

describe("TLS", () => {
  test("a kernel whose certificate is signed by the CA and names the host is believed; its verdicts are the same", async () => {
    const address = await line.kernel(OWN);
    for (const host of ["127.0.0.1", "localhost"]) {
      const safety = line.caller(address.replace("127.0.0.1", host), CA);
      expect(await safety.check(ECHO())).toMatchObject(DECIDED);
      expect(await safety.check(request("demo.forbidden"))).toMatchObject({ decision: { effect: "deny" } });
    }
  });

  test.each([
    ["signed by somebody else", OWN, { ca: pem("other-ca") }, "unable to verify"],
    ["of another host", { cert: pem("elsewhere"), key: pem("elsewhere-key") }, CA, "altnames"],
    ["that is none: it does not speak TLS", {}, CA, "wrong version number"],
  ])("a certificate %s: nothing is asked, and operators are told once", async (_, kernel, caller, words) => {
    const log = new KeptLog();
    const address = await line.kernel(kernel);
    const safety = line.caller(address, caller, log);
    for (let at = 0; at < 3; at++) expect(await safety.check(ECHO())).toEqual(UNTRUSTED);
    expect(log.events).toEqual(["error safety_kernel_not_trusted"]);
    expect(log.lines[0]?.fields).toMatchObject({ address, why: expect.stringContaining(words) });
  });

  test("not even an environment that switches checks off makes a stranger believed", async () => {
    vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
    const safety = line.caller(await line.kernel(OWN), { ca: pem("other-ca") });
    expect(await safety.check(ECHO())).toEqual(UNTRUSTED);
  });

  test("a caller in the clear gets nothing from a kernel with TLS, and hears what may be missing", async () => {
    const checked = await line.caller(await line.kernel(OWN), {}).check(ECHO());
    expect(checked).toMatchObject({ kind: "unavailable", reason: expect.stringContaining("`safety.tls.ca`") });
  });

  test("a kernel with a CA lets in callers that show a certificate of it, and nobody else", async () => {
    const address = await line.kernel({ ...OWN, ...CA });
    expect(await line.caller(address, { ...CA, ...CALLER }).check(ECHO())).toMatchObject(DECIDED);
    expect(await line.caller(address, CA).check(ECHO())).toMatchObject({ kind: "unavailable" });
    const strict = await line.kernel({ ...OWN, ca: pem("other-ca") });
    expect(await line.caller(strict, { ...CA, ...CALLER }).check(ECHO())).toMatchObject({ kind: "unavailable" });
  });
});

describe("the token", () => {
  test.each([
    ["in the clear on loopback", {}, {}],
    ["over TLS", OWN, CA],
  ])("whoever has it is answered, %s", async (_, kernel, caller) => {
    const safety = line.caller(await line.kernel({ ...kernel, token: TOKEN }), { ...caller, token: TOKEN });
    const checked = await Promise.all([ECHO(), request("demo.forbidden")].map((one) => safety.check(one)));
    expect(checked).toMatchObject([DECIDED, { decision: { effect: "deny" } }]);
  });

  test.each([
    ["none", null, "no token"],
    ["a wrong one", `${TOKEN}x`, "a wrong token"],
    ["one as long", TOKEN.replace(/.$/, "X"), "a wrong token"],
    ["the beginning of it", TOKEN.slice(0, -1), "a wrong token"],
  ])("%s: no verdict, alone or many at once; both sides are told once, without any token", async (_, token, why) => {
    const logs = { kernel: new KeptLog(), caller: new KeptLog() };
    const address = await line.kernel({ token: TOKEN }, logs.kernel);
    const safety = line.caller(address, { token }, logs.caller);
    expect(await safety.check(ECHO())).toEqual(UNKNOWN);
    for (const checked of await Promise.all([1, 2, 3].map(() => safety.check(ECHO()))))
      expect(checked).toEqual(UNKNOWN);
    expect(logs.caller.events).toEqual(["error safety_token_refused"]);
    expect(logs.kernel.events).toEqual(["warn safety_caller_refused"]);
    expect(logs.kernel.lines[0]?.fields).toMatchObject({ why, times: 1 });
    expect(logs.kernel.text + logs.caller.text).not.toContain(TOKEN.slice(0, 12));
  });

  test("every method of the service asks for it", async () => {
    const address = await line.kernel({ token: TOKEN });
    for (const method of ["Check", "Evaluate", "Explain", "Simulate", "ListSnapshots"]) {
      const type = method === "ListSnapshots" ? "ListSnapshotsRequest" : "PolicyCheckRequest";
      const called = callKernel(address, method, type, {});
      await expect(called, method).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
    }
  });

  test("a question of who is not known is not even read", async () => {
    const called = callKernel(await line.kernel({ token: TOKEN }), "Check", null, Buffer.from([0xff]));
    await expect(called).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
  });

  test("mended, checks are decided again; and a later mistake is told again", async () => {
    const log = new KeptLog();
    let isKnown = false;
    const refuse = { code: status.UNAUTHENTICATED, details: "no" } as ServiceError;
    const { address, server } = await openStrangers({
      Check: (_, done) => (isKnown ? done(null, Buffer.from([0x08, 1])) : done(refuse)),
    });
    const safety = line.caller(address, { token: TOKEN }, log);
    for (const known of [false, true, false]) {
      isKnown = known;
      expect(await safety.check(ECHO())).toMatchObject(known ? DECIDED : UNKNOWN);
    }
    server.forceShutdown();
    expect(log.events).toEqual(["error safety_token_refused", "error safety_token_refused"]);
  });

  test("a kernel that repeats what it was sent gets it neither into reasons, nor errors, nor the log", async () => {
    const log = new KeptLog();
    const codes = [status.UNAUTHENTICATED, status.PERMISSION_DENIED, status.UNAVAILABLE];
    for (const code of codes) {
      const { address, server } = await openStrangers({
        Check: (call, done) => {
          const sent = (call as unknown as { metadata: { get(name: string): unknown[] } }).metadata.get(
            "authorization",
          );
          done({ code, details: `who is ${String(sent[0])}?` } as ServiceError);
        },
      });
      const said = await line
        .caller(address, { token: TOKEN }, log)
        .check(ECHO())
        .catch((error: Error) => {
          return { ...error, message: error.message, cause: String(error.cause) };
        });
      server.forceShutdown();
      expect(JSON.stringify(said), status[code]).not.toContain(TOKEN);
      if (code === status.PERMISSION_DENIED) expect(JSON.stringify(said)).toContain("[redacted]");
    }
    expect(log.text).toContain("who is Bearer [redacted]?");
    expect(log.text).not.toContain(TOKEN);
  });

  test("to this machine it goes straight, and not through a proxy that the environment names", async () => {
    let knocked = 0;
    const proxy = createServer((socket) => {
      knocked++;
      socket.destroy();
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    const { port } = proxy.address() as { port: number };
    vi.stubEnv("grpc_proxy", `http://127.0.0.1:${port}`);
    vi.stubEnv("no_proxy", "");
    vi.stubEnv("no_grpc_proxy", "");
    const checked = await line.caller(await line.kernel({ token: TOKEN }), { token: TOKEN }).check(ECHO());
    proxy.close();
    expect(knocked).toBe(0);
    expect(checked).toMatchObject(DECIDED);
  });
});

test("without any of it a kernel and a caller on loopback work as ever; a token that nobody asks for does no harm", async () => {
  const address = await line.kernel({});
  expect(await line.caller(address, {}).check(ECHO())).toMatchObject(DECIDED);
  expect(await line.caller(address, { token: TOKEN }).check(ECHO())).toMatchObject(DECIDED);
});
