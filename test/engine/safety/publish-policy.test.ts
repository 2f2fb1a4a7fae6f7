import { describe, expect, test } from "vitest";
import { localSafety } from "../../../src/adapters/node/local-safety.ts";
import { AUDIT_PENDING, pendingAuditOf } from "../../../src/core/model/audit.ts";
import { JOBS, jobsOf } from "../../../src/core/model/job.ts";
import { IN_FORCE, POLICY_CHOICE, POLICY_TEXTS, RELEASES_MAX } from "../../../src/core/model/policy-release.ts";
import { DEFAULT_POLICY } from "../../../src/core/policy/built-in.ts";
import { compile } from "../../../src/core/policy/compile.ts";
import { readPolicy } from "../../../src/core/policy/document.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";
import { builtInKernel } from "../../../src/core/policy/kernel.ts";
import { type Flow, openFlow } from "../../../src/engine/engine.ts";
import { policyRequestOf } from "../../../src/engine/safety/check-job.ts";
import { publishFile, publishPolicy, releases, rollbackPolicy } from "../../../src/engine/safety/publish-policy.ts";
import { adoptPolicy, followPolicy, POLL_MS } from "../../../src/engine/safety/watch-policy.ts";
import type { World } from "../../../src/ports/world.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { Plant } from "../harness.ts";

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
function enter(plant: Plant, name: string, change: (world: World) => Partial<World> = () => ({})): Flow {
  const { world } = plant.bench.enter(name);
  const kernel = builtInKernel();
  const own = { ...world, safety: localSafety(kernel) };
  return openFlow({ ...own, ...change(own) }, { current: plant.settings }, kernel);
}

const inForce = ({ kernel }: Flow) => kernel.inForce.snapshot.hash;
const publish = (plant: Plant, flow: Flow, text: string) =>
  plant.run(publishPolicy(flow, { text, name: "test", by: "me" }));

describe("publishing", () => {
  test("is in force here at once, in the store with its text, and in the audit log", async () => {
    const plant = new Plant();
    const flow = enter(plant, "p");
    const published = await publish(plant, flow, ALLOW);
    expect(published).toMatchObject({
      kind: "published",
      previous: null,
      release: { snapshot: hashOf(ALLOW), by: "me" },
    });
    expect(inForce(flow)).toBe(hashOf(ALLOW));
    expect(await publish(plant, flow, DENY)).toMatchObject({ kind: "published", previous: hashOf(ALLOW) });
    const all = await plant.run(releases(flow));
    expect(all.map(({ version, rules }) => [version, rules])).toEqual([
      ["v2", 1],
      ["v1", 1],
    ]);
    const text = await plant.run(flow.world.store.load(POLICY_TEXTS, all[1]?.id ?? ""));
    expect(text?.value.text).toBe(ALLOW);
    const noted = await plant.run(flow.world.store.list(AUDIT_PENDING, { index: pendingAuditOf("*"), limit: 10 }));
    expect(noted.items.flatMap(({ value }) => value.lines.map(({ what, who }) => `${who} ${what}`))).toEqual([
      "me published",
      "me published",
    ]);
  });

  test("a policy with mistakes is refused with all of them, and changes nothing", async () => {
    const plant = new Plant();
    const flow = enter(plant, "p");
    const bad = "rules:\n  - {id: a, match: {topic: [x]}, decision: alow, reason: r}\n";
    const answer = await publish(plant, flow, bad);
    expect(answer.kind === "bad" && answer.problems).toHaveLength(2);
    expect(inForce(flow)).toBe(compile(DEFAULT_POLICY).hash);
    expect(await plant.run(releases(flow))).toEqual([]);
  });

  test("the policy in force again is no new release", async () => {
    const plant = new Plant();
    const flow = enter(plant, "p");
    await publish(plant, flow, ALLOW);
    expect(await publish(plant, flow, `# the same\n${ALLOW}`)).toEqual({ kind: "unchanged", snapshot: hashOf(ALLOW) });
    expect(await plant.run(releases(flow))).toHaveLength(1);
  });

  test("two at the same time come one after the other: the later one names the earlier as its predecessor", async () => {
    const plant = new Plant();
    const [one, two] = [enter(plant, "one"), enter(plant, "two")];
    const wishes = [
      publishPolicy(one, { text: ALLOW, name: "a", by: "x" }),
      publishPolicy(two, { text: DENY, name: "b", by: "y" }),
    ];
    const answers = await plant.run(Promise.all(wishes));
    const previous = answers.map((answer) => (answer.kind === "published" ? answer.previous : "none"));
    expect(previous.filter((hash) => hash === null)).toHaveLength(1);
    const choice = await plant.run(one.world.store.load(POLICY_CHOICE, IN_FORCE));
    expect(previous).toContain([hashOf(ALLOW), hashOf(DENY)].find((hash) => hash !== choice?.value.snapshot));
    expect(choice?.version).toBe(2);
  });

  test("releases beyond the limit leave, oldest first; the one in force never does", async () => {
    const plant = new Plant();
    const flow = enter(plant, "p");
    for (let at = 0; at < RELEASES_MAX + 3; at++) await publish(plant, flow, deciding("allow", `n${at}`));
    const all = await plant.run(releases(flow, RELEASES_MAX + 10));
    expect(all).toHaveLength(RELEASES_MAX);
    expect([all[0]?.version, all.at(-1)?.version]).toEqual([`n${RELEASES_MAX + 2}`, "n3"]);
  });
});

describe("going back", () => {
  test("step by step to the first; then there is nothing before", async () => {
    const plant = new Plant();
    const flow = enter(plant, "p");
    for (const text of [ALLOW, DENY, OTHER]) await publish(plant, flow, text);
    const back = () => plant.run(rollbackPolicy(flow, { by: "me" }));
    expect(await back()).toMatchObject({ kind: "rolled_back", previous: hashOf(OTHER), release: { version: "v2" } });
    expect(inForce(flow)).toBe(hashOf(DENY));
    expect(await back()).toMatchObject({ kind: "rolled_back", release: { version: "v1" } });
    expect(await back()).toEqual({ kind: "first" });
    expect(inForce(flow)).toBe(hashOf(ALLOW));
    expect(await plant.run(releases(flow))).toHaveLength(3);
  });

  test("to a snapshot or a release by name; one that never was is not found", async () => {
    const plant = new Plant();
    const flow = enter(plant, "p");
    const to = (target: string) => plant.run(rollbackPolicy(flow, { to: target, by: "me" }));
    expect(await to(hashOf(ALLOW))).toEqual({ kind: "not_found" });
    expect(await plant.run(rollbackPolicy(flow, { by: "me" }))).toEqual({ kind: "first" });
    for (const text of [ALLOW, DENY, OTHER]) await publish(plant, flow, text);
    expect(await to(hashOf(ALLOW))).toMatchObject({ kind: "rolled_back", release: { version: "v1" } });
    expect(await to(hashOf(ALLOW))).toEqual({ kind: "unchanged", snapshot: hashOf(ALLOW) });
    const [newest] = await plant.run(releases(flow));
    expect(await to(newest?.id ?? "")).toMatchObject({ kind: "rolled_back", release: { version: "v3" } });
    expect(await to("nothing")).toEqual({ kind: "not_found" });
  });
});

describe("a file", () => {
  test("is published once; what was published since stays, until the file changes", async () => {
    const plant = new Plant();
    const flow = enter(plant, "p");
    const file = (text: string) => plant.run(publishFile(flow, { name: "policy.yaml", text }));
    expect(await file(ALLOW)).toMatchObject({ kind: "published", release: { by: "file policy.yaml" } });
    await publish(plant, flow, DENY);
    expect(await file(ALLOW)).toEqual({ kind: "unchanged", snapshot: hashOf(DENY) });
    expect(inForce(flow)).toBe(hashOf(DENY));
    // A comment makes it another file, and its policy is then news, too.
    expect(await file(`# now\n${ALLOW}`)).toMatchObject({ kind: "published" });
    expect(await file(`# again\n${ALLOW}`)).toEqual({ kind: "unchanged", snapshot: hashOf(ALLOW) });
    await publish(plant, flow, OTHER);
    expect(await file(`# again\n${ALLOW}`)).toEqual({ kind: "unchanged", snapshot: hashOf(OTHER) });
  });
});

describe("following", () => {
  test("others are told, and have it long before they would look by themselves", async () => {
    const plant = new Plant();
    const [publisher, follower] = [enter(plant, "one"), enter(plant, "two")];
    await plant.run(followPolicy(follower));
    await publish(plant, publisher, ALLOW);
    await plant.pass(POLL_MS / 4);
    expect(inForce(follower)).toBe(hashOf(ALLOW));
  });

  test("who does not hear it finds out by itself; who starts later begins with it", async () => {
    const plant = new Plant();
    const publisher = enter(plant, "one", ({ bus }) => ({ bus: around(bus, { tell: () => undefined }) }));
    const follower = enter(plant, "two");
    await plant.run(followPolicy(follower));
    await publish(plant, publisher, ALLOW);
    await plant.pass(1.5 * POLL_MS);
    expect(inForce(follower)).toBe(hashOf(ALLOW));
    const late = enter(plant, "three");
    await plant.run(followPolicy(late));
    expect(inForce(late)).toBe(hashOf(ALLOW));
  });

  test("while the store is away the policy from before decides; afterwards the new one", async () => {
    const plant = new Plant();
    let isAway = false;
    const logged: string[] = [];
    const [publisher, follower] = [
      enter(plant, "one"),
      enter(plant, "two", ({ store }) => ({
        store: around(store, {
          load: (...args: Parameters<typeof store.load>) =>
            isAway ? Promise.reject(new Error("away")) : store.load(...args),
        }),
        log: { write: (level, event) => void logged.push(`${level} ${event}`) },
      })),
    ];
    const stop = await plant.run(followPolicy(follower));
    isAway = true;
    await publish(plant, publisher, DENY);
    await plant.pass(5 * POLL_MS);
    expect(inForce(follower)).toBe(compile(DEFAULT_POLICY).hash);
    expect(logged).toEqual(["error policy_not_followed"]);
    isAway = false;
    await plant.pass(2 * POLL_MS);
    expect(inForce(follower)).toBe(hashOf(DENY));
    await plant.run(stop());
  });

  test("a process that cannot read the policy in force does not start: the built-in one was not published", async () => {
    const plant = new Plant();
    const flow = enter(plant, "one");
    await publish(plant, flow, DENY);
    const blind = enter(plant, "two", ({ store }) => ({
      store: around(store, {
        load: async (...args: Parameters<typeof store.load>) => {
          const found = await store.load(...args);
          return args[0].name === POLICY_TEXTS.name && found ? { ...found, value: { text: "rules: 7" } } : found;
        },
      }),
    }));
    await expect(plant.run(followPolicy(blind))).rejects.toThrow("not understood");
  });

  test("a store that has lost everything is believed again once something is published there", async () => {
    const plant = new Plant();
    const flow = enter(plant, "one");
    flow.kernel.put({ snapshot: snapshotOf(ALLOW), source: "before the loss", releaseId: "lost", revision: 9 });
    expect(await plant.run(adoptPolicy(flow))).toBe(false);
    await publish(plant, flow, DENY);
    expect(inForce(flow)).toBe(hashOf(DENY));
    await publish(plant, flow, OTHER);
    expect(inForce(flow)).toBe(hashOf(OTHER));
  });

  test("what comes late does not undo what is newer", async () => {
    const plant = new Plant();
    const flow = enter(plant, "one");
    await publish(plant, flow, ALLOW);
    const old = flow.kernel.inForce;
    await publish(plant, flow, DENY);
    expect(flow.kernel.put(old)).toBe(false);
    expect(await plant.run(adoptPolicy(flow))).toBe(false);
    expect(inForce(flow)).toBe(hashOf(DENY));
  });
});

test("under load, every decision is by the old or the new policy, whole: its rule, its effect, its snapshot", async () => {
  const plant = new Plant();
  const flows = [enter(plant, "one"), enter(plant, "two")];
  for (const flow of flows) await plant.run(followPolicy(flow));
  const texts = [ALLOW, DENY, OTHER];
  const known = new Map([compile(DEFAULT_POLICY), ...texts.map(snapshotOf)].map((one) => [one.hash, one]));
  const seen = new Set<string>();
  for (let round = 0; round < 60; round++) {
    const flow = flows[round % 2] as Flow;
    const change = round % 4 === 3 ? publishPolicy(flow, { text: texts[round % 3] ?? "", name: "t", by: "me" }) : null;
    await Promise.all([
      change === null ? null : plant.run(change),
      ...flows.flatMap((one) => [plant.admit(one, { topic: "a.b" }), plant.admit(one, { topic: "c.d" })]),
    ]);
    await plant.pass(20);
  }
  const store = (flows[0] as Flow).world.store;
  const { items } = await plant.run(store.list(JOBS, { index: jobsOf("default"), limit: 200 }));
  expect(items.length).toBeGreaterThan(150);
  for (const { value: job } of items) {
    const snapshot = known.get(job.safety?.snapshot ?? "");
    if (snapshot === undefined) throw new Error(`job ${job.id} was decided by a policy that never was`);
    expect(job.safety).toEqual(evaluate(snapshot, policyRequestOf(job)));
    seen.add(snapshot.hash);
  }
  expect(seen.size).toBeGreaterThanOrEqual(3);
});
