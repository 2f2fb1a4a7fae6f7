import { describe, expect, test } from "vitest";
import { localSafety } from "../../../src/adapters/node/local-safety.ts";
import { jobLists } from "../../../src/core/jobs/job-filter.ts";
import { AUDIT_PENDING, pendingAuditOf } from "../../../src/core/model/audit.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { IN_FORCE, POLICY_CHOICE, POLICY_TEXTS, RELEASES_MAX } from "../../../src/core/model/policy-release.ts";
import { compile } from "../../../src/core/policy/compile.ts";
import { readPolicy } from "../../../src/core/policy/document.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";
import { builtInKernel, DEFAULT_POLICY } from "../../../src/core/policy/kernel.ts";
import { type Engine, openEngine } from "../../../src/engine/engine.ts";
import { policyRequestOf } from "../../../src/engine/safety/check-job.ts";
import { publishFile, publishPolicy, releases, rollbackPolicy } from "../../../src/engine/safety/publish-policy.ts";
import { adoptPolicy, POLL_MS, watchPolicy } from "../../../src/engine/safety/watch-policy.ts";
import type { World } from "../../../src/ports/world.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { Harness } from "../harness.ts";

const deciding = (decision: "allow" | "deny", version: string) =>
  `version: ${version}\nrules:\n  - {id: r-${version}, match: {topics: [a.*]}, decision: ${decision}, reason: ${version}}\n`;
const ALLOW = deciding("allow", "v1");
const DENY = deciding("deny", "v2");
const OTHER = deciding("deny", "v3");

function snapshotOf(text: string) {
  const read = readPolicy({ name: "test", text });
  if (read.kind === "bad") throw new Error(read.problems.join());
  return compile(read.document);
}

const hashOf = (text: string) => snapshotOf(text).hash;

/** A process with its own kernel. */
function enterWithKernel(
  harness: Harness,
  name: string,
  change: (world: World) => Partial<World> = () => ({}),
): Engine {
  const { world } = harness.sim.enter(name);
  const kernel = builtInKernel();
  const own = { ...world, safety: localSafety(kernel) };
  return openEngine({ ...own, ...change(own) }, { current: harness.settings }, kernel);
}

const inForce = ({ kernel }: Engine) => kernel.inForce.snapshot.hash;
const publish = (harness: Harness, engine: Engine, text: string) =>
  harness.run(publishPolicy(engine, { text, name: "test", by: "me" }));

describe("publishing", () => {
  test("takes effect at once, stores the text and is audited", async () => {
    const harness = new Harness();
    const engine = enterWithKernel(harness, "p");
    const published = await publish(harness, engine, ALLOW);
    expect(published).toMatchObject({
      kind: "published",
      previous: null,
      release: { snapshot: hashOf(ALLOW), by: "me" },
    });
    expect(inForce(engine)).toBe(hashOf(ALLOW));
    expect(await publish(harness, engine, DENY)).toMatchObject({ kind: "published", previous: hashOf(ALLOW) });
    const all = await harness.run(releases(engine));
    expect(all.map(({ version, rules }) => [version, rules])).toEqual([
      ["v2", 1],
      ["v1", 1],
    ]);
    const text = await harness.run(engine.world.store.load(POLICY_TEXTS, all[1]?.id ?? ""));
    expect(text?.value.text).toBe(ALLOW);
    const audited = await harness.run(
      engine.world.store.list(AUDIT_PENDING, { index: pendingAuditOf("*"), limit: 10 }),
    );
    expect(audited.items.flatMap(({ value }) => value.lines.map(({ what, who }) => `${who} ${what}`))).toEqual([
      "me published",
      "me published",
    ]);
  });

  test("reports every problem of an invalid policy and changes nothing", async () => {
    const harness = new Harness();
    const engine = enterWithKernel(harness, "p");
    const bad = "rules:\n  - {id: a, match: {topic: [x]}, decision: alow, reason: r}\n";
    const answer = await publish(harness, engine, bad);
    expect(answer.kind === "bad" && answer.problems).toHaveLength(2);
    expect(inForce(engine)).toBe(compile(DEFAULT_POLICY).hash);
    expect(await harness.run(releases(engine))).toEqual([]);
  });

  test("an identical policy creates no release", async () => {
    const harness = new Harness();
    const engine = enterWithKernel(harness, "p");
    await publish(harness, engine, ALLOW);
    expect(await publish(harness, engine, `# the same\n${ALLOW}`)).toEqual({
      kind: "unchanged",
      snapshot: hashOf(ALLOW),
    });
    expect(await harness.run(releases(engine))).toHaveLength(1);
  });

  test("concurrent publishes are serialized, and the later one names its predecessor", async () => {
    const harness = new Harness();
    const [one, two] = [enterWithKernel(harness, "one"), enterWithKernel(harness, "two")];
    const requests = [
      publishPolicy(one, { text: ALLOW, name: "a", by: "x" }),
      publishPolicy(two, { text: DENY, name: "b", by: "y" }),
    ];
    const answers = await harness.run(Promise.all(requests));
    const previous = answers.map((answer) => (answer.kind === "published" ? answer.previous : "none"));
    expect(previous.filter((hash) => hash === null)).toHaveLength(1);
    const choice = await harness.run(one.world.store.load(POLICY_CHOICE, IN_FORCE));
    expect(previous).toContain([hashOf(ALLOW), hashOf(DENY)].find((hash) => hash !== choice?.value.snapshot));
    expect(choice?.version).toBe(2);
  });

  test("removes the oldest releases over the limit, never the one in force", async () => {
    const harness = new Harness();
    const engine = enterWithKernel(harness, "p");
    for (let at = 0; at < RELEASES_MAX + 3; at++) await publish(harness, engine, deciding("allow", `n${at}`));
    const all = await harness.run(releases(engine, RELEASES_MAX + 10));
    expect(all).toHaveLength(RELEASES_MAX);
    expect([all[0]?.version, all.at(-1)?.version]).toEqual([`n${RELEASES_MAX + 2}`, "n3"]);
  });
});

describe("rollback", () => {
  test("goes back one release at a time, up to the first", async () => {
    const harness = new Harness();
    const engine = enterWithKernel(harness, "p");
    for (const text of [ALLOW, DENY, OTHER]) await publish(harness, engine, text);
    const rollBack = () => harness.run(rollbackPolicy(engine, { by: "me" }));
    expect(await rollBack()).toMatchObject({
      kind: "rolled_back",
      previous: hashOf(OTHER),
      release: { version: "v2" },
    });
    expect(inForce(engine)).toBe(hashOf(DENY));
    expect(await rollBack()).toMatchObject({ kind: "rolled_back", release: { version: "v1" } });
    expect(await rollBack()).toEqual({ kind: "first" });
    expect(inForce(engine)).toBe(hashOf(ALLOW));
    expect(await harness.run(releases(engine))).toHaveLength(3);
  });

  test("selects a snapshot or a release; an unknown one is not found", async () => {
    const harness = new Harness();
    const engine = enterWithKernel(harness, "p");
    const to = (target: string) => harness.run(rollbackPolicy(engine, { to: target, by: "me" }));
    expect(await to(hashOf(ALLOW))).toEqual({ kind: "not_found" });
    expect(await harness.run(rollbackPolicy(engine, { by: "me" }))).toEqual({ kind: "first" });
    for (const text of [ALLOW, DENY, OTHER]) await publish(harness, engine, text);
    expect(await to(hashOf(ALLOW))).toMatchObject({ kind: "rolled_back", release: { version: "v1" } });
    expect(await to(hashOf(ALLOW))).toEqual({ kind: "unchanged", snapshot: hashOf(ALLOW) });
    const [newest] = await harness.run(releases(engine));
    expect(await to(newest?.id ?? "")).toMatchObject({ kind: "rolled_back", release: { version: "v3" } });
    expect(await to("nothing")).toEqual({ kind: "not_found" });
  });
});

describe("policy file", () => {
  test("is published once per content and does not override later releases", async () => {
    const harness = new Harness();
    const engine = enterWithKernel(harness, "p");
    const file = (text: string) => harness.run(publishFile(engine, { name: "policy.yaml", text }));
    expect(await file(ALLOW)).toMatchObject({ kind: "published", release: { by: "file policy.yaml" } });
    await publish(harness, engine, DENY);
    expect(await file(ALLOW)).toEqual({ kind: "unchanged", snapshot: hashOf(DENY) });
    expect(inForce(engine)).toBe(hashOf(DENY));
    // A comment changes the file, so its policy is published again.
    expect(await file(`# now\n${ALLOW}`)).toMatchObject({ kind: "published" });
    expect(await file(`# again\n${ALLOW}`)).toEqual({ kind: "unchanged", snapshot: hashOf(ALLOW) });
    await publish(harness, engine, OTHER);
    expect(await file(`# again\n${ALLOW}`)).toEqual({ kind: "unchanged", snapshot: hashOf(OTHER) });
  });
});

describe("following", () => {
  test("other processes receive a policy by broadcast before they poll", async () => {
    const harness = new Harness();
    const [publisher, follower] = [enterWithKernel(harness, "one"), enterWithKernel(harness, "two")];
    await harness.run(watchPolicy(follower));
    await publish(harness, publisher, ALLOW);
    await harness.pass(POLL_MS / 4);
    expect(inForce(follower)).toBe(hashOf(ALLOW));
  });

  test("polls without a broadcast, and loads the policy at the start", async () => {
    const harness = new Harness();
    const publisher = enterWithKernel(harness, "one", ({ bus }) => ({
      bus: around(bus, { broadcast: () => undefined }),
    }));
    const follower = enterWithKernel(harness, "two");
    await harness.run(watchPolicy(follower));
    await publish(harness, publisher, ALLOW);
    await harness.pass(1.5 * POLL_MS);
    expect(inForce(follower)).toBe(hashOf(ALLOW));
    const late = enterWithKernel(harness, "three");
    await harness.run(watchPolicy(late));
    expect(inForce(late)).toBe(hashOf(ALLOW));
  });

  test("keeps the previous policy while the store is unavailable", async () => {
    const harness = new Harness();
    let isUnavailable = false;
    const logged: string[] = [];
    const [publisher, follower] = [
      enterWithKernel(harness, "one"),
      enterWithKernel(harness, "two", ({ store }) => ({
        store: around(store, {
          load: (...args: Parameters<typeof store.load>) =>
            isUnavailable ? Promise.reject(new Error("unavailable")) : store.load(...args),
        }),
        log: { write: (level, event) => void logged.push(`${level} ${event}`) },
      })),
    ];
    const stop = await harness.run(watchPolicy(follower));
    isUnavailable = true;
    await publish(harness, publisher, DENY);
    await harness.pass(5 * POLL_MS);
    expect(inForce(follower)).toBe(compile(DEFAULT_POLICY).hash);
    expect(logged).toEqual(["error policy_load_failed"]);
    isUnavailable = false;
    await harness.pass(2 * POLL_MS);
    expect(inForce(follower)).toBe(hashOf(DENY));
    await harness.run(stop());
  });

  test("does not start when the policy in force cannot be read", async () => {
    const harness = new Harness();
    const engine = enterWithKernel(harness, "one");
    await publish(harness, engine, DENY);
    const corrupted = enterWithKernel(harness, "two", ({ store }) => ({
      store: around(store, {
        load: async (...args: Parameters<typeof store.load>) => {
          const found = await store.load(...args);
          return args[0].name === POLICY_TEXTS.name && found ? { ...found, value: { text: "rules: 7" } } : found;
        },
      }),
    }));
    await expect(harness.run(watchPolicy(corrupted))).rejects.toThrow("cannot be compiled");
  });

  test("accepts a lower revision after the store lost its data", async () => {
    const harness = new Harness();
    const engine = enterWithKernel(harness, "one");
    engine.kernel.update({ snapshot: snapshotOf(ALLOW), source: "before the loss", releaseId: "lost", revision: 9 });
    expect(await harness.run(adoptPolicy(engine))).toBe(false);
    await publish(harness, engine, DENY);
    expect(inForce(engine)).toBe(hashOf(DENY));
    await publish(harness, engine, OTHER);
    expect(inForce(engine)).toBe(hashOf(OTHER));
  });

  test("ignores an older policy that arrives late", async () => {
    const harness = new Harness();
    const engine = enterWithKernel(harness, "one");
    await publish(harness, engine, ALLOW);
    const old = engine.kernel.inForce;
    await publish(harness, engine, DENY);
    expect(engine.kernel.update(old)).toBe(false);
    expect(await harness.run(adoptPolicy(engine))).toBe(false);
    expect(inForce(engine)).toBe(hashOf(DENY));
  });

  test("keeps a newer policy that was adopted while an older one was loaded", async () => {
    const harness = new Harness();
    await publish(harness, enterWithKernel(harness, "one"), ALLOW);
    const late = enterWithKernel(harness, "two");
    const adopting = adoptPolicy(late);
    late.kernel.update({ snapshot: snapshotOf(DENY), source: "newer", releaseId: "newer", revision: 9 });
    expect(await harness.run(adopting)).toBe(false);
    expect(inForce(late)).toBe(hashOf(DENY));
  });
});

test("every decision under load uses one policy consistently", async () => {
  const harness = new Harness();
  const engines = [enterWithKernel(harness, "one"), enterWithKernel(harness, "two")];
  for (const engine of engines) await harness.run(watchPolicy(engine));
  const texts = [ALLOW, DENY, OTHER];
  const known = new Map([compile(DEFAULT_POLICY), ...texts.map(snapshotOf)].map((one) => [one.hash, one]));
  const seen = new Set<string>();
  for (let round = 0; round < 60; round++) {
    const engine = engines[round % 2] as Engine;
    const change =
      round % 4 === 3 ? publishPolicy(engine, { text: texts[round % 3] ?? "", name: "t", by: "me" }) : null;
    await Promise.all([
      change === null ? null : harness.run(change),
      ...engines.flatMap((one) => [harness.admit(one, { topic: "a.b" }), harness.admit(one, { topic: "c.d" })]),
    ]);
    await harness.pass(20);
  }
  const store = (engines[0] as Engine).world.store;
  const { items } = await harness.run(store.list(JOBS, { index: jobLists("default", {}), limit: 200 }));
  expect(items.length).toBeGreaterThan(150);
  for (const { value: job } of items) {
    const snapshot = known.get(job.safety?.snapshot ?? "");
    if (snapshot === undefined) throw new Error(`job ${job.id} was decided by a policy that never was`);
    expect(job.safety).toEqual(evaluate(snapshot, policyRequestOf(job, job.safety?.atMs)));
    seen.add(snapshot.hash);
  }
  expect(seen.size).toBeGreaterThanOrEqual(3);
});
