// What is said of the way to the safety kernel before anything is opened: where it may lead, and which files are right.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { openGrpcSafety } from "../../../src/adapters/grpc/safety.ts";
import { startSafetyServer } from "../../../src/adapters/grpc/safety-server.ts";
import { isInTheClear, refuseToAsk, refuseToListen, TrustError } from "../../../src/adapters/grpc/trust.ts";
import { builtInKernel } from "../../../src/core/policy/kernel.ts";
import { CA, CALLER, callerTrust, KeptLog, kernelTrust, OWN, pem, TOKEN } from "./client.fixtures.ts";

const dir = mkdtempSync(join(tmpdir(), "cordum-trust-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const HERE = ["127.0.0.1", "localhost", "::1"];
const BEYOND = ["0.0.0.0", "::", "10.0.0.7", "kernel.test"];

describe("where a kernel listens", () => {
  test.each(HERE)("on %s whatever it asks of callers", (host) => {
    for (const given of [{}, { token: TOKEN }, OWN])
      expect(() => refuseToListen(host, kernelTrust(given))).not.toThrow();
  });

  test.each(BEYOND)("on %s only if it knows its callers, by token or by certificate", (host) => {
    for (const given of [{}, OWN]) expect(() => refuseToListen(host, kernelTrust(given))).toThrow("`safety.token`");
    for (const given of [{ token: TOKEN }, { ...OWN, token: TOKEN }, { ...OWN, ...CA }]) {
      expect(() => refuseToListen(host, kernelTrust(given))).not.toThrow();
    }
  });

  test("the server itself holds to it", async () => {
    const options = { kernel: builtInKernel(), log: new KeptLog(), host: "0.0.0.0", port: 0 };
    await expect(startSafetyServer(options)).rejects.toThrow("will not listen on `0.0.0.0`");
  });
});

describe("whom a caller sends its token", () => {
  const addresses = (hosts: readonly string[]) =>
    hosts.map((host) => `${host.includes(":") ? `[${host}]` : host}:50051`);

  test.each(addresses(HERE))("%s, in the clear too", (address) => {
    expect(() => refuseToAsk(address, callerTrust({ token: TOKEN }))).not.toThrow();
  });

  test.each(addresses(BEYOND))("%s only over TLS; without a token it may ask in the clear", (address) => {
    expect(() => refuseToAsk(address, callerTrust({ token: TOKEN }))).toThrow("`safety.tls.ca`");
    expect(() => refuseToAsk(address, callerTrust({ token: TOKEN, ...CA }))).not.toThrow();
    expect(() => refuseToAsk(address, callerTrust({}))).not.toThrow();
  });

  test("the caller itself holds to it, and does not say the token", () => {
    const open = () =>
      openGrpcSafety({ address: "kernel.test:50051", timeoutMs: () => 1_000, trust: callerTrust({ token: TOKEN }) });
    expect(open).toThrow("will not send `safety.token` to `kernel.test:50051`");
    expect(open).not.toThrow(TOKEN);
  });
});

test("in the clear is what crosses a network without TLS", () => {
  expect(isInTheClear("10.0.0.7", callerTrust({}))).toBe(true);
  expect(isInTheClear("10.0.0.7", callerTrust(CA))).toBe(false);
  expect(isInTheClear("127.0.0.1", kernelTrust({ token: TOKEN }))).toBe(false);
});

describe("files", () => {
  function file(name: string, text: string | Buffer): string {
    writeFileSync(join(dir, name), text);
    return join(dir, name);
  }

  /** The setting that the refusal names, and what it says. */
  function refused(read: () => unknown): { setting: string; message: string } {
    try {
      read();
    } catch (error) {
      if (error instanceof TrustError) return { setting: error.setting, message: error.message };
      throw error;
    }
    throw new Error("nothing was refused");
  }

  test.each([
    ["no such file", { ...OWN, cert: "/nowhere/c.pem" }, "safety.tls.cert", "`/nowhere/c.pem`: there is no such file"],
    ["a directory", { ...OWN, key: dir }, "safety.tls.key", "it is a directory"],
    ["a file for a directory", { ...OWN, key: `${OWN.cert}/key` }, "safety.tls.key", "it cannot be read: ENOTDIR"],
    ["a key for a certificate", { ...OWN, cert: OWN.key }, "safety.tls.cert", "there is a key, but no certificate"],
    ["a certificate for a key", { ...OWN, key: OWN.cert }, "safety.tls.key", "there is no key in it"],
    ["a passphrase", { ...OWN, key: pem("locked-key") }, "safety.tls.key", "it has a passphrase"],
    ["the key of another", { ...OWN, key: CALLER.key }, "safety.tls.key", "is not the key of the first certificate"],
    ["a certificate of the past", { ...OWN, cert: pem("expired") }, "safety.tls.cert", "ended on Jan  1 00:00:00 2020"],
    ["a CA that is none", { ...OWN, ca: OWN.key }, "safety.tls.ca", "no certificate"],
    ["a CA without a certificate of its own", CA, "safety.tls.cert", "cannot ask for certificates"],
  ])("of a kernel: %s", (_, given, setting, words) => {
    const said = refused(() => kernelTrust(given));
    expect(said).toEqual({ setting, message: expect.stringContaining(words) });
  });

  test("of a caller: its certificate is no use without a CA to check the kernel's by", () => {
    expect(refused(() => callerTrust(CALLER))).toMatchObject({ setting: "safety.tls.ca" });
  });

  test("one that is cut, or garbled, is said to be so, and nothing of it is shown", () => {
    const text = readFileSync(OWN.cert, "utf8");
    const garbled = file("garbled.pem", text.replace(/\n[A-Za-z0-9+/]{20}/, "\nAAAAAAAAAAAAAAAAAAAA"));
    expect(refused(() => kernelTrust({ ...OWN, cert: garbled })).message).toContain("cannot be read");
    const cut = file("cut.pem", readFileSync(OWN.key, "utf8").slice(0, 100));
    const { message } = refused(() => kernelTrust({ ...OWN, key: cut }));
    expect(message).toContain("there is no key in it");
    expect(message).not.toContain(readFileSync(cut, "utf8").split("\n")[1]);
  });

  test("a chain begins with the own certificate; a CA file may hold several", () => {
    const [own, ca, other] = ["kernel", "ca", "other-ca"].map((name) => readFileSync(pem(name), "utf8"));
    expect(kernelTrust({ ...OWN, cert: file("chain.pem", `${own}${ca}`) }).tls).not.toBeNull();
    const message = refused(() => kernelTrust({ ...OWN, cert: file("upside-down.pem", `${ca}${own}`) })).message;
    expect(message).toContain("before those that it is signed by");
    expect(callerTrust({ ca: file("bundle.pem", `# ours\n${ca}\n${other}`) }).tls).not.toBeNull();
  });
});
