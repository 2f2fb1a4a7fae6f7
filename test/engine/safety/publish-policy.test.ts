import { describe, expect, test } from "vitest";
import { localSafety } from "../../../src/adapters/node/local-safety.ts";
import { AUDIT_PENDING, pendingAuditOf } from "../../../src/core/model/audit.ts";
import { JOBS, jobsOf } from "../../../src/core/model/job.ts";
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

/** A process whose kernel is its own. */
function enter(harness: Harness, name: string, change: (world: World) => Partial<World> = () => ({})): Engine {
  const { world } = harness.sim.enter(name);
  const kernel = builtInKernel();
  const own = { ...world, safety: localSafety(kernel) };
  return openEngine({ ...own, ...change(own) }, { current: harness.settings }, kernel);
}

const inForce = ({ kernel }: Engine) => kernel.inForce.snapshot.hash;
const publish = (harness: Harness, engine: Engine, text: string) =>
  harness.run(publishPolicy(engine, { text, name: "test", by: "me" }));

describe("publishing", () => {
  test("is in force here at once, in the store with its text, and in the audit log", async () => {
    const harness = new Harness();
    const engine = enter(harness, "p");
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
    const noted = await harness.run(engine.world.store.list(AUDIT_PENDING, { index: pendingAuditOf("*"), limit: 10 }));
    expect(noted.items.flatMap(({ value }) => value.lines.map(({ what, who }) => `${who} ${what}`))).toEqual([
      "me published",
      "me published",
    ]);
  });

  test("a policy with mistakes is refused with all of them, and changes nothing", async () => {
    const harness = new Harness();
    const engine = enter(harness, "p");
    const bad = "rules:\n  - {id: a, match: {topic: [x]}, decision: alow, reason: r}\n";
    const answer = await publish(harness, engine, bad);
    expect(answer.kind === "bad" && answer.problems).toHaveLength(2);
    expect(inForce(engine)).toBe(compile(DEFAULT_POLICY).hash);
    expect(await harness.run(releases(engine))).toEqual([]);
  });

  test("the policy in force again is no new release", async () => {
    const harness = new Harness();
    const engine = enter(harness, "p");
    await publish(harness, engine, ALLOW);
    expect(await publish(harness, engine, `# the same\n${ALLOW}`)).toEqual({
      kind: "unchanged",
      snapshot: hashOf(ALLOW),
    });
    expect(await harness.run(releases(engine))).toHaveLength(1);
  });

  test("two at the same time come one after the other: the later one names the earlier as its predecessor", async () => {
    const harness = new Harness();
    const [one, two] = [enter(harness, "one"), enter(harness, "two")];
    const wishes = [
      publishPolicy(one, { text: ALLOW, name: "a", by: "x" }),
      publishPolicy(two, { text: DENY, name: "b", by: "y" }),
    ];
    const answers = await harness.run(Promise.all(wishes));
    const previous = answers.map((answer) => (answer.kind === "published" ? answer.previous : "none"));
    expect(previous.filter((hash) => hash === null)).toHaveLength(1);
    const choice = await harness.run(one.world.store.load(POLICY_CHOICE, IN_FORCE));
    expect(previous).toContain([hashOf(ALLOW), hashOf(DENY)].find((hash) => hash !== choice?.value.snapshot));
    expect(choice?.version).toBe(2);
  });

  test("releases beyond the limit leave, oldest first; the one in force never does", async () => {
    const harness = new Harness();
    const engine = enter(harness, "p");
    for (let at = 0; at < RELEASES_MAX + 3; at++) await publish(harness, engine, deciding("allow", `n${at}`));
    const all = await harness.run(releases(engine, RELEASES_MAX + 10));
    expect(all).toHaveLength(RELEASES_MAX);
    expect([all[0]?.version, all.at(-1)?.version]).toEqual([`n${RELEASES_MAX + 2}`, "n3"]);
  });
});

describe("going back", () => {
  test("step by step to the first; then there is nothing before", async () => {
    const harness = new Harness();
    const engine = enter(harness, "p");
    for (const text of [ALLOW, DENY, OTHER]) await publish(harness, engine, text);
    const back = () => harness.run(rollbackPolicy(engine, { by: "me" }));
    expect(await back()).toMatchObject({ kind: "rolled_back", previous: hashOf(OTHER), release: { version: "v2" } });
    expect(inForce(engine)).toBe(hashOf(DENY));
    expect(await back()).toMatchObject({ kind: "rolled_back", release: { version: "v1" } });
    expect(await back()).toEqual({ kind: "first" });
    expect(inForce(engine)).toBe(hashOf(ALLOW));
    expect(await harness.run(releases(engine))).toHaveLength(3);
  });

  test("to a snapshot or a release by name; one that never was is not found", async () => {
    const harness = new Harness();
    const engine = enter(harness, "p");
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

describe("a file", () => {
  test("is published once; what was published since stays, until the file changes", async () => {
    const harness = new Harness();
    const engine = enter(harness, "p");
    const file = (text: string) => harness.run(publishFile(engine, { name: "policy.yaml", text }));
    expect(await file(ALLOW)).toMatchObject({ kind: "published", release: { by: "file policy.yaml" } });
    await publish(harness, engine, DENY);
    expect(await file(ALLOW)).toEqual({ kind: "unchanged", snapshot: hashOf(DENY) });
    expect(inForce(engine)).toBe(hashOf(DENY));
    // A comment makes it another file, and its policy is then news, too.
    expect(await file(`# now\n${ALLOW}`)).toMatchObject({ kind: "published" });
    expect(await file(`# again\n${ALLOW}`)).toEqual({ kind: "unchanged", snapshot: hashOf(ALLOW) });
    await publish(harness, engine, OTHER);
    expect(await file(`# again\n${ALLOW}`)).toEqual({ kind: "unchanged", snapshot: hashOf(OTHER) });
  });
});

describe("following", () => {
  test("others are told, and have it long before they would look by themselves", async () => {
    const harness = new Harness();
    const [publisher, follower] = [enter(harness, "one"), enter(harness, "two")];
    await harness.run(watchPolicy(follower));
    await publish(harness, publisher, ALLOW);
    await harness.pass(POLL_MS / 4);
    expect(inForce(follower)).toBe(hashOf(ALLOW));
  });

  test("who does not hear it finds out by itself; who starts later begins with it", async () => {
    const harness = new Harness();
    const publisher = enter(harness, "one", ({ bus }) => ({ bus: around(bus, { broadcast: () => undefined }) }));
    const follower = enter(harness, "two");
    await harness.run(watchPolicy(follower));
    await publish(harness, publisher, ALLOW);
    await harness.pass(1.5 * POLL_MS);
    expect(inForce(follower)).toBe(hashOf(ALLOW));
    const late = enter(harness, "three");
    await harness.run(watchPolicy(late));
    expect(inForce(late)).toBe(hashOf(ALLOW));
  });

  test("while the store is away the policy from before decides; afterwards the new one", async () => {
    const harness = new Harness();
    let isAway = false;
    const logged: string[] = [];
    const [publisher, follower] = [
      enter(harness, "one"),
      enter(harness, "two", ({ store }) => ({
        store: around(store, {
          load: (...args: Parameters<typeof store.load>) =>
            isAway ? Promise.reject(new Error("away")) : store.load(...args),
        }),
        log: { write: (level, event) => void logged.push(`${level} ${event}`) },
      })),
    ];
    const stop = await harness.run(watchPolicy(follower));
    isAway = true;
    await publish(harness, publisher, DENY);
    await harness.pass(5 * POLL_MS);
    expect(inForce(follower)).toBe(compile(DEFAULT_POLICY).hash);
    expect(logged).toEqual(["error policy_load_failed"]);
    isAway = false;
    await harness.pass(2 * POLL_MS);
    expect(inForce(follower)).toBe(hashOf(DENY));
    await harness.run(stop());
  });

  test("a process that cannot read the policy in force does not start: the built-in one was not published", async () => {
    const harness = new Harness();
    const engine = enter(harness, "one");
    await publish(harness, engine, DENY);
    const blind = enter(harness, "two", ({ store }) => ({
      store: around(store, {
        load: async (...args: Parameters<typeof store.load>) => {
          const found = await store.load(...args);
          return args[0].name === POLICY_TEXTS.name && found ? { ...found, value: { text: "rules: 7" } } : found;
        },
      }),
    }));
    await expect(harness.run(watchPolicy(blind))).rejects.toThrow("cannot be compiled");
  });

  test("a store that has lost everything is believed again once something is published there", async () => {
    const harness = new Harness();
    const engine = enter(harness, "one");
    engine.kernel.update({ snapshot: snapshotOf(ALLOW), source: "before the loss", releaseId: "lost", revision: 9 });
    expect(await harness.run(adoptPolicy(engine))).toBe(false);
    await publish(harness, engine, DENY);
    expect(inForce(engine)).toBe(hashOf(DENY));
    await publish(harness, engine, OTHER);
    expect(inForce(engine)).toBe(hashOf(OTHER));
  });

  test("what comes late does not undo what is newer", async () => {
    const harness = new Harness();
    const engine = enter(harness, "one");
    await publish(harness, engine, ALLOW);
    const old = engine.kernel.inForce;
    await publish(harness, engine, DENY);
    expect(engine.kernel.update(old)).toBe(false);
    expect(await harness.run(adoptPolicy(engine))).toBe(false);
    expect(inForce(engine)).toBe(hashOf(DENY));
  });
});

test("under load, every decision is by the old or the new policy, whole: its rule, its effect, its snapshot", async () => {
  const harness = new Harness();
  const engines = [enter(harness, "one"), enter(harness, "two")];
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
  const { items } = await harness.run(store.list(JOBS, { index: jobsOf("default"), limit: 200 }));
  expect(items.length).toBeGreaterThan(150);
  for (const { value: job } of items) {
    const snapshot = known.get(job.safety?.snapshot ?? "");
    if (snapshot === undefined) throw new Error(`job ${job.id} was decided by a policy that never was`);
    expect(job.safety).toEqual(evaluate(snapshot, policyRequestOf(job)));
    seen.add(snapshot.hash);
  }
  expect(seen.size).toBeGreaterThanOrEqual(3);
});
