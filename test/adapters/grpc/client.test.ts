// Authentication and TLS between the safety kernel and its clients, over real connections.
import { createServer } from "node:net";
import { type ServiceError, status } from "@grpc/grpc-js";
import { afterEach, describe, expect, test, vi } from "vitest";
import { callKernel, openThirdParty, request } from "../../contract/safety/safety.peer.ts";
import { CA, CALLER, Connections, OWN, pem, RecordingLog, TOKEN } from "./client.fixtures.ts";

const connections = new Connections();
afterEach(() => vi.unstubAllEnvs());

const ECHO = () => request("demo.echo");
const DECIDED = { kind: "decided", decision: { effect: "allow" } };
const UNAUTHENTICATED = {
  kind: "unavailable",
  reason: "the kernel rejected this process: `safety.token` is missing or wrong",
};
const UNTRUSTED = {
  kind: "unavailable",
  reason: "kernel unreachable: TLS verification failed (`safety.tls.*`)",
};

describe("TLS", () => {
  test("accepts a kernel whose certificate is signed by the CA and names the host", async () => {
    const address = await connections.kernel(OWN);
    for (const host of ["127.0.0.1", "localhost"]) {
      const safety = connections.caller(address.replace("127.0.0.1", host), CA);
      expect(await safety.check(ECHO())).toMatchObject(DECIDED);
      expect(await safety.check(request("demo.forbidden"))).toMatchObject({ decision: { effect: "deny" } });
    }
  });

  test.each([
    ["is signed by another CA", OWN, { ca: pem("other-ca") }, "unable to verify"],
    ["names another host", { cert: pem("elsewhere"), key: pem("elsewhere-key") }, CA, "altnames"],
    ["is missing, because it does not use TLS", {}, CA, "wrong version number"],
  ])("rejects a kernel whose certificate %s, and logs it once", async (_, kernel, caller, error) => {
    const log = new RecordingLog();
    const address = await connections.kernel(kernel);
    const safety = connections.caller(address, caller, log);
    for (let at = 0; at < 3; at++) expect(await safety.check(ECHO())).toEqual(UNTRUSTED);
    expect(log.events).toEqual(["error safety_kernel_not_trusted"]);
    expect(log.lines[0]?.fields).toMatchObject({ address, error: expect.stringContaining(error) });
  });

  test("verifies certificates even if the environment disables verification", async () => {
    vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
    const safety = connections.caller(await connections.kernel(OWN), { ca: pem("other-ca") });
    expect(await safety.check(ECHO())).toEqual(UNTRUSTED);
  });

  test("names `safety.tls.ca` if an unencrypted client calls a kernel with TLS", async () => {
    const checked = await connections.caller(await connections.kernel(OWN), {}).check(ECHO());
    expect(checked).toMatchObject({ kind: "unavailable", reason: expect.stringContaining("`safety.tls.ca`") });
  });

  test("a kernel with a CA accepts only clients with a certificate of that CA", async () => {
    const address = await connections.kernel({ ...OWN, ...CA });
    expect(await connections.caller(address, { ...CA, ...CALLER }).check(ECHO())).toMatchObject(DECIDED);
    expect(await connections.caller(address, CA).check(ECHO())).toMatchObject({ kind: "unavailable" });
    const strict = await connections.kernel({ ...OWN, ca: pem("other-ca") });
    expect(await connections.caller(strict, { ...CA, ...CALLER }).check(ECHO())).toMatchObject({ kind: "unavailable" });
  });
});

describe("the token", () => {
  test.each([
    ["unencrypted on loopback", {}, {}],
    ["over TLS", OWN, CA],
  ])("authenticates a client, %s", async (_, kernel, caller) => {
    const safety = connections.caller(await connections.kernel({ ...kernel, token: TOKEN }), {
      ...caller,
      token: TOKEN,
    });
    const checked = await Promise.all([ECHO(), request("demo.forbidden")].map((one) => safety.check(one)));
    expect(checked).toMatchObject([DECIDED, { decision: { effect: "deny" } }]);
  });

  test.each([
    ["no token", null, "no token"],
    ["a longer token", `${TOKEN}x`, "wrong token"],
    ["a token of equal length", TOKEN.replace(/.$/, "X"), "wrong token"],
    ["a prefix of the token", TOKEN.slice(0, -1), "wrong token"],
  ])("rejects single and framed checks with %s; both sides log it once, without tokens", async (_, token, error) => {
    const logs = { kernel: new RecordingLog(), caller: new RecordingLog() };
    const address = await connections.kernel({ token: TOKEN }, logs.kernel);
    const safety = connections.caller(address, { token }, logs.caller);
    expect(await safety.check(ECHO())).toEqual(UNAUTHENTICATED);
    for (const checked of await Promise.all([1, 2, 3].map(() => safety.check(ECHO()))))
      expect(checked).toEqual(UNAUTHENTICATED);
    expect(logs.caller.events).toEqual(["error safety_token_refused"]);
    expect(logs.kernel.events).toEqual(["warn safety_caller_refused"]);
    expect(logs.kernel.lines[0]?.fields).toMatchObject({ error, times: 1 });
    expect(logs.kernel.text + logs.caller.text).not.toContain(TOKEN.slice(0, 12));
  });

  test("is required by every method of the service", async () => {
    const address = await connections.kernel({ token: TOKEN });
    for (const method of ["Check", "Evaluate", "Explain", "Simulate", "ListSnapshots"]) {
      const type = method === "ListSnapshots" ? "ListSnapshotsRequest" : "PolicyCheckRequest";
      const called = callKernel(address, method, type, {});
      await expect(called, method).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
    }
  });

  test("is checked before the request is decoded", async () => {
    const called = callKernel(await connections.kernel({ token: TOKEN }), "Check", null, Buffer.from([0xff]));
    await expect(called).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
  });

  test("recovers when the token is fixed, and logs a later rejection again", async () => {
    const log = new RecordingLog();
    let isAccepted = false;
    const refuse = { code: status.UNAUTHENTICATED, details: "no" } as ServiceError;
    const { address, server } = await openThirdParty({
      Check: (_, done) => (isAccepted ? done(null, Buffer.from([0x08, 1])) : done(refuse)),
    });
    const safety = connections.caller(address, { token: TOKEN }, log);
    for (const accepted of [false, true, false]) {
      isAccepted = accepted;
      expect(await safety.check(ECHO())).toMatchObject(accepted ? DECIDED : UNAUTHENTICATED);
    }
    server.forceShutdown();
    expect(log.events).toEqual(["error safety_token_refused", "error safety_token_refused"]);
  });

  test("does not appear in reasons, errors or logs if the kernel echoes it", async () => {
    const log = new RecordingLog();
    const codes = [status.UNAUTHENTICATED, status.PERMISSION_DENIED, status.UNAVAILABLE];
    for (const code of codes) {
      const { address, server } = await openThirdParty({
        Check: (call, done) => {
          const sent = (call as unknown as { metadata: { get(name: string): unknown[] } }).metadata.get(
            "authorization",
          );
          done({ code, details: `received ${String(sent[0])}` } as ServiceError);
        },
      });
      const result = await connections
        .caller(address, { token: TOKEN }, log)
        .check(ECHO())
        .catch((error: Error) => {
          return { ...error, message: error.message, cause: String(error.cause) };
        });
      server.forceShutdown();
      expect(JSON.stringify(result), status[code]).not.toContain(TOKEN);
      if (code === status.PERMISSION_DENIED) expect(JSON.stringify(result)).toContain("[redacted]");
    }
    expect(log.text).toContain("received Bearer [redacted]");
    expect(log.text).not.toContain(TOKEN);
  });

  test("is not sent to a proxy on loopback connections", async () => {
    let accepted = 0;
    const proxy = createServer((socket) => {
      accepted++;
      socket.destroy();
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    const { port } = proxy.address() as { port: number };
    vi.stubEnv("grpc_proxy", `http://127.0.0.1:${port}`);
    vi.stubEnv("no_proxy", "");
    vi.stubEnv("no_grpc_proxy", "");
    const checked = await connections
      .caller(await connections.kernel({ token: TOKEN }), { token: TOKEN })
      .check(ECHO());
    proxy.close();
    expect(accepted).toBe(0);
    expect(checked).toMatchObject(DECIDED);
  });
});

test("a kernel without authentication accepts clients on loopback, with and without a token", async () => {
  const address = await connections.kernel({});
  expect(await connections.caller(address, {}).check(ECHO())).toMatchObject(DECIDED);
  expect(await connections.caller(address, { token: TOKEN }).check(ECHO())).toMatchObject(DECIDED);
});
