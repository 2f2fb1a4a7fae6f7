import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openSenderKeys, readOwnKey } from "../../../src/adapters/node/packet-keys.ts";
import { TrustError } from "../../../src/adapters/node/pem-file.ts";
import type { SenderSettings } from "../../../src/core/settings.ts";
import { counting } from "../../../src/sim/adapters/counting.ts";
import { signer } from "./signers.ts";

const [control, ann, bob] = [signer(), signer(), signer()];
let dir = "";

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cordum-keys-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function file(name: string, text: string): string {
  const path = join(dir, name);
  writeFileSync(path, text);
  return path;
}

const encrypted = () =>
  control.privateKey.export({ type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "x" }).toString();
const edwards = () => generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString();

describe("the key of the control plane", () => {
  test("is read together with further public keys in the file", () => {
    const { key, ours } = readOwnKey(file("cap.pem", control.privatePem + ann.publicPem));
    expect(key.equals(control.privateKey)).toBe(true);
    expect(ours.map((one) => one.equals(control.publicKey))).toEqual([true, false]);
  });

  test("can have the format of `openssl ecparam`: parameters first, then the key", () => {
    const curve = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    const sec1 = control.privateKey.export({ type: "sec1", format: "pem" }).toString();
    expect(readOwnKey(file("cap.pem", curve + sec1)).key.equals(control.privateKey)).toBe(true);
  });

  test.each([
    ["an encrypted key", encrypted, /passphrase/],
    ["a public key", () => control.publicPem, /no valid private key/],
    ["no PEM", () => "nonsense", /no valid private key/],
    ["a key on another curve", () => signer("P-384").privatePem, /not on curve P-256/],
    ["an Ed25519 key", edwards, /not on curve P-256/],
  ])("rejects %s without quoting it", (_, text, message) => {
    const path = file("cap.pem", text());
    expect(() => readOwnKey(path)).toThrow(TrustError);
    expect(() => readOwnKey(path)).toThrow(message);
    expect(() => readOwnKey(path)).not.toThrow(/BEGIN PRIVATE|MIG|nonsense/);
  });

  test("reports a missing file with the setting and the path", () => {
    expect(() => readOwnKey(join(dir, "none.pem"))).toThrow(/`cap.key`: `.*none.pem`: no such file/);
  });
});

describe("sender keys", () => {
  function open(senders: Record<string, string>) {
    const counts = counting();
    let current = settingsOf(senders);
    const keys = openSenderKeys(() => current, counts.log);
    const change = (next: Record<string, string>) => {
      current = settingsOf(next);
    };
    return { keys, ...counts, change };
  }

  test("follow the settings: added, removed and changed keys", () => {
    const [one, other] = [file("ann.pem", ann.publicPem), file("bob.pem", bob.publicPem)];
    const { keys, change } = open({ ann: one });
    expect([...keys().keys()]).toEqual(["ann"]);
    expect(keys()).toBe(keys());
    change({ bob: other });
    expect([...keys().keys()]).toEqual(["bob"]);
    writeFileSync(other, ann.publicPem + bob.publicPem);
    change({ bob: other });
    expect(
      keys()
        .get("bob")
        ?.map((key) => key.equals(ann.publicKey)),
    ).toEqual([true, false]);
  });

  test("keep their previous value if a file becomes unreadable, and log it", () => {
    const path = file("ann.pem", ann.publicPem);
    const { keys, change, events } = open({ ann: path });
    rmSync(path);
    change({ ann: path, bob: path });
    expect(keys().get("ann")?.[0]?.equals(ann.publicKey)).toBe(true);
    expect(keys().has("bob")).toBe(false);
    expect(events.get("cap_sender_key_read_failed")).toBe(2);
  });

  test.each([
    ["a private key", () => ann.privatePem, /`cap.senders.ann.key`: .*private key, which must stay with the sender/],
    ["an empty file", () => "", /no public key found/],
    ["a damaged key", () => ann.publicPem.replace(/\nM.*\n/, "\nMF\n"), /invalid public key/],
    ["a key on another curve", () => signer("P-384").publicPem, /not on curve P-256/],
    ["more than 4 keys", () => ann.publicPem.repeat(5), /more than 4 public keys/],
  ])("fail the start with %s", (_, text, message) => {
    expect(() => open({ ann: file("ann.pem", text()) })).toThrow(message);
  });
});

const settingsOf = (senders: Record<string, string>): Readonly<Record<string, SenderSettings>> =>
  Object.fromEntries(Object.entries(senders).map(([id, keyFile]) => [id, { keyFile, tenants: [] }]));
