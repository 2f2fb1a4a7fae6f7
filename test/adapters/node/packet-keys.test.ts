import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { TrustError } from "../../../src/adapters/grpc/trust.ts";
import { openSenderKeys, readOwnKey } from "../../../src/adapters/node/packet-keys.ts";
import type { SenderSettings } from "../../../src/core/settings.ts";
import { counting } from "../../../src/sim/adapters/counting.ts";
import { signer } from "./signers.ts";

const [house, ann, bob] = [signer(), signer(), signer()];
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
  house.privateKey.export({ type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "x" }).toString();
const edwards = () => generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString();

describe("our own key", () => {
  test("signs, and is known with those beside it", () => {
    const { key, ours } = readOwnKey(file("cap.pem", house.privatePem + ann.publicPem));
    expect(key.equals(house.privateKey)).toBe(true);
    expect(ours.map((one) => one.equals(house.publicKey))).toEqual([true, false]);
  });

  test("may be written as `openssl ecparam` does: the curve first, then the key", () => {
    const curve = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    const sec1 = house.privateKey.export({ type: "sec1", format: "pem" }).toString();
    expect(readOwnKey(file("cap.pem", curve + sec1)).key.equals(house.privateKey)).toBe(true);
  });

  test.each([
    ["an encrypted one", encrypted, /passphrase/],
    ["a public one", () => house.publicPem, /no private key/],
    ["nonsense", () => "nonsense", /no private key/],
    ["one of another curve", () => signer("P-384").privatePem, /not of the curve P-256/],
    ["one of no such curve", edwards, /not of the curve/],
  ])("%s is none, and nothing of it is told", (_, text, why) => {
    const path = file("cap.pem", text());
    expect(() => readOwnKey(path)).toThrow(TrustError);
    expect(() => readOwnKey(path)).toThrow(why);
    expect(() => readOwnKey(path)).not.toThrow(/BEGIN PRIVATE|MIG|nonsense/);
  });

  test("that is not there is said with the setting and the file", () => {
    expect(() => readOwnKey(join(dir, "none.pem"))).toThrow(/`cap.key`: `.*none.pem`: there is no such file/);
  });
});

describe("the keys of senders", () => {
  function opened(senders: Record<string, string>) {
    const told = counting();
    let current = listed(senders);
    const keys = openSenderKeys(() => current, told.log);
    const change = (next: Record<string, string>) => {
      current = listed(next);
    };
    return { keys, ...told, change };
  }

  test("follow the settings: who is added is known, who is removed is not, a key that was changed counts", () => {
    const [one, other] = [file("ann.pem", ann.publicPem), file("bob.pem", bob.publicPem)];
    const { keys, change } = opened({ ann: one });
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

  test("that cannot be read later leave the one that was there, and say so", () => {
    const path = file("ann.pem", ann.publicPem);
    const { keys, change, events } = opened({ ann: path });
    rmSync(path);
    change({ ann: path, bob: path });
    expect(keys().get("ann")?.[0]?.equals(ann.publicKey)).toBe(true);
    expect(keys().has("bob")).toBe(false);
    expect(events.get("cap_sender_key_not_read")).toBe(2);
  });

  test.each([
    ["a private key", () => ann.privatePem, /`cap.senders.ann.key`: .*private key, which only the sender should have/],
    ["nothing", () => "", /there is no public key in it/],
    ["a damaged key", () => ann.publicPem.replace(/\nM.*\n/, "\nMF\n"), /cannot be read/],
    ["a key of another curve", () => signer("P-384").publicPem, /not of the curve P-256/],
    ["more keys than are tried", () => ann.publicPem.repeat(5), /more than 4 public keys/],
  ])("%s keeps the process from starting", (_, text, why) => {
    expect(() => opened({ ann: file("ann.pem", text()) })).toThrow(why);
  });
});

const listed = (senders: Record<string, string>): Readonly<Record<string, SenderSettings>> =>
  Object.fromEntries(Object.entries(senders).map(([id, keyFile]) => [id, { keyFile, tenants: [] }]));
