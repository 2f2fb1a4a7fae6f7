// Validation of addresses and certificate files before any connection.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { openGrpcSafety } from "../../../src/adapters/grpc/safety.ts";
import { startSafetyServer } from "../../../src/adapters/grpc/safety-server.ts";
import { checkCallAddress, checkListenHost, isUnencrypted } from "../../../src/adapters/grpc/trust.ts";
import { TrustError } from "../../../src/adapters/node/pem-file.ts";
import { builtInKernel } from "../../../src/core/policy/kernel.ts";
import { CA, CALLER, callerTrust, kernelTrust, OWN, pem, RecordingLog, TOKEN } from "./client.fixtures.ts";

const dir = mkdtempSync(join(tmpdir(), "cordum-trust-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const LOOPBACK = ["127.0.0.1", "localhost", "::1"];
const REMOTE = ["0.0.0.0", "::", "10.0.0.7", "kernel.test"];

describe("a kernel", () => {
  test.each(LOOPBACK)("listens on %s without authentication", (host) => {
    for (const settings of [{}, { token: TOKEN }, OWN])
      expect(() => checkListenHost(host, kernelTrust(settings))).not.toThrow();
  });

  test.each(REMOTE)("listens on %s only with a token or client certificates", (host) => {
    for (const settings of [{}, OWN])
      expect(() => checkListenHost(host, kernelTrust(settings))).toThrow("`safety.token`");
    for (const settings of [{ token: TOKEN }, { ...OWN, token: TOKEN }, { ...OWN, ...CA }]) {
      expect(() => checkListenHost(host, kernelTrust(settings))).not.toThrow();
    }
  });

  test("does not start on an address that is refused", async () => {
    const options = { kernel: builtInKernel(), log: new RecordingLog(), host: "0.0.0.0", port: 0 };
    await expect(startSafetyServer(options)).rejects.toThrow("refusing to listen on `0.0.0.0`");
  });
});

describe("a client", () => {
  const addresses = (hosts: readonly string[]) =>
    hosts.map((host) => `${host.includes(":") ? `[${host}]` : host}:50051`);

  test.each(addresses(LOOPBACK))("sends its token to %s unencrypted", (address) => {
    expect(() => checkCallAddress(address, callerTrust({ token: TOKEN }))).not.toThrow();
  });

  test.each(addresses(REMOTE))("sends its token to %s only over TLS", (address) => {
    expect(() => checkCallAddress(address, callerTrust({ token: TOKEN }))).toThrow("`safety.tls.ca`");
    expect(() => checkCallAddress(address, callerTrust({ token: TOKEN, ...CA }))).not.toThrow();
    expect(() => checkCallAddress(address, callerTrust({}))).not.toThrow();
  });

  test("does not open on an address that is refused, nor quote the token", () => {
    const open = () =>
      openGrpcSafety({ address: "kernel.test:50051", timeoutMs: () => 1_000, trust: callerTrust({ token: TOKEN }) });
    expect(open).toThrow("refusing to send `safety.token` to `kernel.test:50051`");
    expect(open).not.toThrow(TOKEN);
  });
});

test("a remote connection without TLS is unencrypted", () => {
  expect(isUnencrypted("10.0.0.7", callerTrust({}))).toBe(true);
  expect(isUnencrypted("10.0.0.7", callerTrust(CA))).toBe(false);
  expect(isUnencrypted("127.0.0.1", kernelTrust({ token: TOKEN }))).toBe(false);
});

describe("files", () => {
  function file(name: string, text: string | Buffer): string {
    writeFileSync(join(dir, name), text);
    return join(dir, name);
  }

  /** The setting and the message of the TrustError. */
  function refused(read: () => unknown): { setting: string; message: string } {
    try {
      read();
    } catch (error) {
      if (error instanceof TrustError) return { setting: error.setting, message: error.message };
      throw error;
    }
    throw new Error("no TrustError was thrown");
  }

  test.each([
    ["no such file", { ...OWN, cert: "/nowhere/c.pem" }, "safety.tls.cert", "`/nowhere/c.pem`: no such file"],
    ["a directory", { ...OWN, key: dir }, "safety.tls.key", "this is a directory"],
    ["a file used as a directory", { ...OWN, key: `${OWN.cert}/key` }, "safety.tls.key", "cannot read it: ENOTDIR"],
    ["a key as certificate", { ...OWN, cert: OWN.key }, "safety.tls.cert", "found a key, not a certificate"],
    ["a certificate as key", { ...OWN, key: OWN.cert }, "safety.tls.key", "no valid private key found"],
    ["a passphrase", { ...OWN, key: pem("locked-key") }, "safety.tls.key", "the key has a passphrase"],
    ["another key", { ...OWN, key: CALLER.key }, "safety.tls.key", "does not match the first certificate"],
    ["an expired certificate", { ...OWN, cert: pem("expired") }, "safety.tls.cert", "expired on Jan  1 00:00:00 2020"],
    ["a key as CA", { ...OWN, ca: OWN.key }, "safety.tls.ca", "not a certificate"],
    ["a CA without an own certificate", CA, "safety.tls.cert", "requires the kernel's own certificate"],
  ])("of a kernel are validated: %s", (_, settings, setting, message) => {
    const error = refused(() => kernelTrust(settings));
    expect(error).toEqual({ setting, message: expect.stringContaining(message) });
  });

  test("of a client are rejected if a certificate is set without a CA", () => {
    expect(refused(() => callerTrust(CALLER))).toMatchObject({ setting: "safety.tls.ca" });
  });

  test("that are truncated or damaged are rejected without quoting them", () => {
    const text = readFileSync(OWN.cert, "utf8");
    const garbled = file("garbled.pem", text.replace(/\n[A-Za-z0-9+/]{20}/, "\nAAAAAAAAAAAAAAAAAAAA"));
    expect(refused(() => kernelTrust({ ...OWN, cert: garbled })).message).toContain("invalid certificate");
    const cut = file("cut.pem", readFileSync(OWN.key, "utf8").slice(0, 100));
    const { message } = refused(() => kernelTrust({ ...OWN, key: cut }));
    expect(message).toContain("no valid private key found");
    expect(message).not.toContain(readFileSync(cut, "utf8").split("\n")[1]);
  });

  test("can contain a chain that starts with the own certificate, and several CAs", () => {
    const [own, ca, other] = ["kernel", "ca", "other-ca"].map((name) => readFileSync(pem(name), "utf8"));
    expect(kernelTrust({ ...OWN, cert: file("chain.pem", `${own}${ca}`) }).tls).not.toBeNull();
    const message = refused(() => kernelTrust({ ...OWN, cert: file("upside-down.pem", `${ca}${own}`) })).message;
    expect(message).toContain("before the intermediate certificates");
    expect(callerTrust({ ca: file("bundle.pem", `# ours\n${ca}\n${other}`) }).tls).not.toBeNull();
  });
});
