import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openAuditSigner } from "../../../src/adapters/node/audit-signer.ts";
import { AUDIT_HEADS, AUDIT_PAGES } from "../../../src/core/model/audit.ts";
import { auditPagesOf } from "../../../src/core/model/lists/audit-lists.ts";
import { put } from "../../../src/ports/store.ts";
import { openTestGateway, type TestGateway } from "../../gateway/test-gateway.ts";
import { cordum } from "../run.ts";

let gateway: TestGateway;
let env: Readonly<Record<string, string>>;
const dir = mkdtempSync(join(tmpdir(), "cordum-audit-"));
const [file, key] = [join(dir, "checkpoint.json"), join(dir, "audit-public.pem")];

beforeAll(async () => {
  gateway = await openTestGateway();
  env = { CORDUM_URL: await gateway.server.listen("127.0.0.1", 0) };
  for (let at = 0; at < 3; at++) await gateway.call("POST", "/api/v1/jobs", { body: { topic: "demo.forbidden" } });
});
afterAll(async () => {
  await gateway.close();
  rmSync(dir, { recursive: true, force: true });
});

const verify = (...argv: string[]) => cordum(["audit", "verify", ...argv], env);

test("a checkpoint is written to a file, its public key to another and to stderr", async () => {
  const made = await cordum(["audit", "checkpoint", "--out", file, "--public-key", key], env);
  expect(made).toMatchObject({ exitCode: 0, out: `checkpoint of 3 entries written to ${file}\n` });
  expect(made.err).toContain(readFileSync(key, "utf8"));
  const saved = JSON.parse(readFileSync(file, "utf8"));
  expect(saved).toMatchObject({ format: "cordum-audit-checkpoint/1", tenant: "default", entries: 3 });
  const printed = await cordum(["audit", "checkpoint"], env);
  expect(JSON.parse(printed.out)).toMatchObject({ head: saved.head, public_key: saved.public_key });
});

test("an unchanged log contains the checkpoint and its head", async () => {
  const trusted = await verify("--checkpoint", file, "--public-key", key);
  expect(trusted).toMatchObject({ exitCode: 0, err: "" });
  expect(trusted.out).toMatch(/audit log intact: 3 entries, .*; contains the checkpoint of 3 entries signed at 2/);
  expect((await verify("--checkpoint", file)).err).toContain("the signer of the checkpoint was not verified");
  const { head } = JSON.parse(readFileSync(file, "utf8"));
  expect((await verify("--head", head)).out).toContain("contains the saved head");
  expect(JSON.parse((await verify("--head", head, "--json")).out)).toMatchObject({ ok: true, tenant: "default" });
});

test("a changed checkpoint, and one of another signer, is rejected", async () => {
  const saved = JSON.parse(readFileSync(file, "utf8"));
  const other = join(dir, "other");
  for (const [name, value] of Object.entries({
    entries: 2,
    tenant: "acme",
    head: "0".repeat(64),
    at: "2020",
    signature: "AAAA",
  })) {
    writeFileSync(other, JSON.stringify({ ...saved, [name]: value }));
    expect(await verify("--checkpoint", other, "--public-key", key), name).toMatchObject({ exitCode: 1, out: "" });
  }
  writeFileSync(other, openAuditSigner(null, dir)?.publicKey() ?? "");
  const forged = await verify("--checkpoint", file, "--public-key", other);
  expect(forged.exitCode).toBe(1);
  expect(forged.err).toContain("is not signed by this key");
});

test.each([
  [["--checkpoint", file, "--head", "0".repeat(64)], "exclude each other"],
  [["--public-key", key], "verifies a --checkpoint"],
  [["--checkpoint", key], "is not an audit checkpoint"],
  [["--checkpoint", join(dir, "none")], "cannot read"],
])("rejects %j", async (argv, message) => {
  const ran = await verify(...argv);
  expect(ran.exitCode).toBe(2);
  expect(ran.err).toContain(message);
});

test("rejects a head that is not a hash, and a checkpoint of another tenant", async () => {
  expect(await verify("--head", "newest")).toMatchObject({ exitCode: 2 });
  const ran = await cordum(["audit", "verify", "--checkpoint", file], { ...env, CORDUM_TENANT: "acme" });
  expect(ran.exitCode).toBe(2);
  expect(ran.err).toContain("the checkpoint is of tenant `default`, this key reads the log of tenant `acme`");
});

test("a log that lost its entries exits with 1", async () => {
  const { store } = gateway.world;
  const head = await store.load(AUDIT_HEADS, "default");
  const { items } = await store.list(AUDIT_PAGES, { index: auditPagesOf("default"), limit: 10 });
  const puts = [put(AUDIT_HEADS, "default", head, null), ...items.map((page) => put(AUDIT_PAGES, page.id, page, null))];
  await store.commit({ org: "default", atMs: 1, puts, guards: [], sends: [], watch: [] });
  expect(await verify()).toMatchObject({ exitCode: 0 });
  const ran = await verify("--checkpoint", file, "--public-key", key);
  expect(ran.exitCode).toBe(1);
  expect(ran.out).toContain("broken at entry 0: entries removed: 3 entries were saved, 0 are left");
});

test("the own key of a data directory is private and stays the same; another file must hold an Ed25519 key", () => {
  const own = mkdtempSync(join(dir, "own-"));
  const signer = openAuditSigner(null, own);
  expect(signer?.publicKey()).toBe(openAuditSigner(null, own)?.publicKey());
  expect(statSync(join(own, "audit-key.pem")).mode & 0o777).toBe(0o600);
  expect(openAuditSigner(null, null)).toBeNull();
  expect(openAuditSigner(join(own, "audit-key.pem"), null)?.publicKey()).toBe(signer?.publicKey());
  expect(() => openAuditSigner(file, null)).toThrow("openssl genpkey -algorithm ed25519");
  expect(() => openAuditSigner(join(own, "none"), null)).toThrow("no such file");
});
