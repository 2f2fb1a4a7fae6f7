/**
 * Publishes a policy for all processes.
 *
 * 1. Only a valid policy is published; otherwise all problems are returned.
 * 2. Release, text, choice and audit entry are one commit.
 * 3. A rollback returns to the release that was in force before the current one, and so on; it creates no release.
 * 4. A policy file is published if its text differs from the file published last, so that a restart does not undo a
 *    later publish.
 */
import { createHash } from "node:crypto";
import {
  IN_FORCE,
  POLICY_CHOICE,
  POLICY_RELEASES,
  POLICY_TEXTS,
  type PolicyChoice,
  type PolicyFile,
  type PolicyRelease,
  RELEASES_COUNTER,
  RELEASES_GROUP,
  RELEASES_LIST,
  RELEASES_MAX,
  releasesOf,
} from "../../core/model/policy-release.ts";
import { compile, type Snapshot } from "../../core/policy/compile.ts";
import { type PolicyDocument, readPolicy } from "../../core/policy/document.ts";
import type { Busy } from "../../ports/evaluator.ts";
import { type Put, put, type Versioned } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import { broadcastChange } from "../change-broadcast.ts";
import { retryOnConflict } from "../commit.ts";
import type { Engine, Needs } from "../engine.ts";
import { adoptPolicy, POLICY_CHANGED } from "./watch-policy.ts";

export interface PublishRequest {
  readonly text: string;
  readonly name: string;
  readonly by: string;
  readonly note?: string | null;
  /** The number of test cases that passed; null if none were required. */
  readonly tested?: number | null;
  /** The snapshot that the author compared with: nothing is published if another one is in force. */
  readonly base?: string | undefined;
}

export type Published =
  | { readonly kind: "published"; readonly release: PolicyRelease; readonly previous: string | null }
  /** The policy is in force already. */
  | { readonly kind: "unchanged"; readonly snapshot: string }
  | Replaced
  | { readonly kind: "bad"; readonly problems: readonly string[] };

/** Another policy than `base` is in force. */
interface Replaced {
  readonly kind: "replaced";
  readonly snapshot: string;
}

/** The text of a client is read by the evaluator first. */
export async function publishPolicy(
  engine: Needs<"world" | "commit" | "audit" | "kernel">,
  request: PublishRequest,
): Promise<Published | Busy | { readonly kind: "over"; readonly why: string }> {
  const { name, text } = request;
  const read = await engine.world.evaluator.run(ALL, "readPolicy", { name, text });
  if (read.kind !== "answered") return read;
  return read.answer.kind === "bad" ? read.answer : publish(engine, request, read.answer.document, null);
}

/** Publishes a file unless it was published last. */
export async function publishFile(
  engine: Needs<"world" | "commit" | "audit" | "kernel">,
  file: { readonly name: string; readonly text: string },
): Promise<Published> {
  const sha256 = createHash("sha256").update(file.text).digest("hex");
  const choice = await loadChoice(engine);
  if (choice?.value.file?.sha256 === sha256) return { kind: "unchanged", snapshot: choice.value.snapshot };
  // Clients see the name; the directories of the host are none of their business.
  const name = file.name.replace(/^.*[\\/]/s, "");
  const read = readPolicy({ name, text: file.text });
  if (read.kind === "bad") return read;
  return publish(engine, { text: file.text, name, by: `file ${name}` }, read.document, { name, sha256 });
}

export type RolledBack =
  | { readonly kind: "rolled_back"; readonly release: PolicyRelease; readonly previous: string }
  | { readonly kind: "unchanged"; readonly snapshot: string }
  | Replaced
  | { readonly kind: "not_found" }
  /** There is no earlier release. */
  | { readonly kind: "first" }
  /** Published by another version and not readable by this one. */
  | { readonly kind: "bad"; readonly problems: readonly string[] };

/** `to`: a snapshot or release id; the previous release if omitted. */
export async function rollbackPolicy(
  engine: Needs<"world" | "commit" | "audit" | "kernel">,
  request: { readonly to?: string; readonly by: string; readonly base?: string | undefined },
): Promise<RolledBack> {
  const answer = await retryOnConflict("the policy in force", () => stepBack(engine, request));
  if (answer.kind === "rolled_back") await spread(engine);
  return answer;
}

/** Newest first, without texts. */
export async function releases(engine: Needs<"world">, limit = RELEASES_MAX): Promise<readonly PolicyRelease[]> {
  const page = await engine.world.store.list(POLICY_RELEASES, { index: RELEASES_LIST, limit });
  return page.items.map(({ value }) => value);
}

async function publish(
  engine: Needs<"world" | "commit" | "audit" | "kernel">,
  request: PublishRequest,
  document: PolicyDocument,
  file: PolicyFile | null,
): Promise<Published> {
  const snapshot = compile(document);
  const answer = await retryOnConflict("the policy in force", () => release(engine, request, snapshot, file));
  if (answer.kind === "published") await spread(engine);
  return answer;
}

async function release(
  engine: Needs<"world" | "commit" | "audit" | "kernel">,
  { text, name, by, note, base, tested }: PublishRequest,
  snapshot: Snapshot,
  file: PolicyFile | null,
): Promise<Published | "stale"> {
  const { clock, random, store } = engine.world;
  const before = await loadChoice(engine);
  const replaced = replacedBy(engine, before, base);
  if (replaced !== null) return replaced;
  if (before?.value.snapshot === snapshot.hash) {
    if (file === null) return { kind: "unchanged", snapshot: snapshot.hash };
    const puts = [put(POLICY_CHOICE, IN_FORCE, before, { ...before.value, file })];
    const noted = await engine.commit({ org: ALL, puts });
    return noted.kind === "committed" ? { kind: "unchanged", snapshot: snapshot.hash } : "stale";
  }
  const made: PolicyRelease = {
    id: random.id(),
    snapshot: snapshot.hash,
    name,
    version: snapshot.document.version,
    rules: snapshot.document.rules.length,
    by,
    atMs: clock.now(),
    note: note ?? null,
    previousId: before?.value.releaseId ?? null,
  };
  const choice: PolicyChoice = {
    releaseId: made.id,
    snapshot: made.snapshot,
    previousId: made.previousId,
    by,
    atMs: made.atMs,
    how: "publish",
    file: file ?? before?.value.file ?? null,
  };
  const facts = {
    snapshot: made.snapshot,
    previous: before?.value.snapshot ?? null,
    name,
    note: made.note,
    ...(tested == null ? {} : { tests_passed: tested }),
  };
  const committed = await engine.commit({
    org: ALL,
    puts: [
      put(POLICY_RELEASES, made.id, null, made),
      put(POLICY_TEXTS, made.id, null, { text }),
      put(POLICY_CHOICE, IN_FORCE, before, choice),
      auditPut(engine, { org: ALL, kind: "policy", who: by, what: "published", facts }),
      ...(await oldest(store, before)),
    ],
  });
  if (committed.kind !== "committed") return "stale";
  return { kind: "published", release: made, previous: before?.value.snapshot ?? null };
}

async function stepBack(
  engine: Needs<"world" | "commit" | "audit" | "kernel">,
  { to, by, base }: { to?: string; by: string; base?: string | undefined },
): Promise<RolledBack | "stale"> {
  const { clock, store } = engine.world;
  const before = await loadChoice(engine);
  const replaced = replacedBy(engine, before, base);
  if (replaced !== null) return replaced;
  if (before === null) return to === undefined ? { kind: "first" } : { kind: "not_found" };
  if (to === undefined && before.value.previousId === null) return { kind: "first" };
  const target = await (to === undefined
    ? store.load(POLICY_RELEASES, before.value.previousId ?? "")
    : find(engine, to));
  if (target === null) return { kind: "not_found" };
  const { id, snapshot, previousId } = target.value;
  if (snapshot === before.value.snapshot) return { kind: "unchanged", snapshot };
  const text = await store.load(POLICY_TEXTS, id);
  if (text === null) return { kind: "not_found" };
  const read = readPolicy({ name: target.value.name, text: text.value.text });
  if (read.kind === "bad") return read;
  const previous = before.value.snapshot;
  const choice: PolicyChoice = {
    ...before.value,
    releaseId: id,
    snapshot,
    previousId,
    by,
    atMs: clock.now(),
    how: "rollback",
  };
  const committed = await engine.commit({
    org: ALL,
    puts: [
      put(POLICY_CHOICE, IN_FORCE, before, choice),
      auditPut(engine, { org: ALL, kind: "policy", who: by, what: "rolled back", facts: { snapshot, previous } }),
    ],
  });
  return committed.kind === "committed" ? { kind: "rolled_back", release: target.value, previous } : "stale";
}

const ALL = "*";

const loadChoice = (engine: Needs<"world">) => engine.world.store.load(POLICY_CHOICE, IN_FORCE);

function replacedBy(
  { kernel }: Needs<"kernel">,
  choice: Versioned<PolicyChoice> | null,
  base: string | undefined,
): Replaced | null {
  const snapshot = choice?.value.snapshot ?? kernel.inForce.snapshot.hash;
  return base === undefined || base === snapshot ? null : { kind: "replaced", snapshot };
}

async function find(engine: Needs<"world">, to: string): Promise<Versioned<PolicyRelease> | null> {
  const { store } = engine.world;
  const [byId, bySnapshot] = await Promise.all([
    store.load(POLICY_RELEASES, to),
    store.list(POLICY_RELEASES, { index: releasesOf(to), limit: 1 }),
  ]);
  return byId ?? bySnapshot.items[0] ?? null;
}

/** In force in this process at once; the others follow on the broadcast or by polling. */
async function spread(engine: Needs<"world" | "kernel">): Promise<void> {
  broadcastChange(engine, POLICY_CHANGED);
  await adoptPolicy(engine);
}

/** Releases to remove for a new one. */
async function oldest(
  store: Engine["world"]["store"],
  choice: Versioned<PolicyChoice> | null,
): Promise<readonly Put[]> {
  const count = (await store.counts(RELEASES_GROUP, 1)).get(RELEASES_COUNTER.name) ?? 0;
  if (count < RELEASES_MAX) return [];
  const page = await store.list(POLICY_RELEASES, { index: RELEASES_LIST, limit: KEPT + 1, order: "oldest" });
  const kept = new Set([choice?.value.releaseId, choice?.value.previousId]);
  const leaving = page.items.find(({ id }) => !kept.has(id));
  if (leaving === undefined) return [];
  const text = await store.load(POLICY_TEXTS, leaving.id);
  return [
    put(POLICY_RELEASES, leaving.id, leaving, null),
    ...(text === null ? [] : [put(POLICY_TEXTS, leaving.id, text, null)]),
  ];
}

const KEPT = 2;
