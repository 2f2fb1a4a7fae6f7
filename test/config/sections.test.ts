import { expect, test } from "vitest";
import { explainConfig } from "../../src/cli/commands/config.ts";
import { type Config, LiveConfig, type Sources } from "../../src/config/config.ts";
import { good, problemsOf } from "./configured.ts";

const file = (text: string): Sources => ({ file: { name: "cordum.yaml", text } });

function explainedAs(config: Config, name?: string): string {
  let text = "";
  explainConfig({ out: (part: string) => (text += part) } as never, config, name, false);
  return text;
}

const TEXT = `
orgs:
  acme: {weight: 3, limits: {max_concurrent_jobs: 7, max_concurrent_runs: 2}}
  Big-Co: {weight: 2}
pools:
  gpu:
    topics: [train.*, "render.>"]
    requires: [cuda]
  cpu: {topics: demo.echo}
redaction: {paths: [input.card.number, "input.items.*.note"]}
`;

test("builds the settings of tenants and pools", () => {
  const { settings } = good(file(TEXT));
  expect(settings.orgs).toEqual({
    acme: { weight: 3, limits: { concurrentJobsMax: 7, concurrentRunsMax: 2 } },
    "Big-Co": { weight: 2 },
  });
  expect(settings.pools).toEqual({
    gpu: { topics: ["train.*", "render.>"], requires: ["cuda"] },
    cpu: { topics: ["demo.echo"], requires: [] },
  });
  expect(settings.redaction.paths).toEqual(["input.card.number", "input.items.*.note"]);
  expect(Object.isFrozen(settings.pools.gpu)).toBe(true);
});

test("the environment overrides the file, for ids in lower case", () => {
  const env = {
    CORDUM_ORGS_ACME_LIMITS_MAX_CONCURRENT_JOBS: "9",
    CORDUM_ORGS_ACME_EU_WEIGHT: "5",
    CORDUM_POOLS_GPU_TOPICS: "train.a, train.b",
    CORDUM_REDACTION_PATHS: "input.a",
  };
  const { settings, sections } = good({ ...file(TEXT), env });
  expect(settings.orgs.acme).toEqual({ weight: 3, limits: { concurrentJobsMax: 9, concurrentRunsMax: 2 } });
  expect(settings.orgs.acme_eu).toEqual({ weight: 5 });
  expect(settings.pools.gpu).toEqual({ topics: ["train.a", "train.b"], requires: ["cuda"] });
  expect(sections.find(({ name }) => name === "orgs.acme_eu.weight")?.origin.place).toBe("CORDUM_ORGS_ACME_EU_WEIGHT");
});

test.each([
  ["orgs: {acme: {wieght: 3}}", "unknown setting `orgs.acme.wieght`; did you mean `orgs.acme.weight`?"],
  [
    "orgs: {acme: {limits: {max_jobs: 3}}}",
    "valid names are `orgs.<id>.limits.max_concurrent_jobs`, `orgs.<id>.limits.max_concurrent_runs`, `orgs.<id>.limits.backlog_max`, ",
  ],
  ["orgs: {'a b': {weight: 3}}", "unknown setting `orgs.a b.weight`"],
  ["orgs: {acme: {weight: 0}}", "`0` is not a whole number from 1 to 100 (turns)"],
  ["orgs: {acme: {weight: [1]}}", "not a list"],
  ["pools: {gpu: {requires: [cuda]}}", "pool `gpu` has no topics; write"],
  ["pools: {gpu: {topics: []}}", "pool `gpu` has no topics; write"],
  ["pools: {gpu: {topics: ['a b']}}", "`a b` is not a valid name"],
  ["pools: {gpu: {topics: [{a: 1}]}}", "expected `name: value` here"],
  ["redaction: {paths: ['a/b']}", "`a/b` is not a valid name"],
])("%s is rejected with a hint", (text, why) => {
  expect(problemsOf(file(text)).join("\n")).toContain(why);
});

test("a misspelt variable of a section is an unknown variable", () => {
  expect(problemsOf({ env: { CORDUM_ORGS_ACME_WIEGHT: "3" } })[0]).toContain("unknown environment variable");
});

test("a reload applies added, changed and removed values", () => {
  const live = new LiveConfig(good(file("orgs: {a: {weight: 2}, b: {weight: 2}}")));
  const { applied, needRestart } = live.reload(good(file("orgs: {a: {weight: 3}, c: {weight: 2}}")));
  expect(applied).toEqual(["orgs.a.weight", "orgs.b.weight", "orgs.c.weight"]);
  expect(needRestart).toEqual([]);
  expect(live.current.orgs).toEqual({ a: { weight: 3 }, c: { weight: 2 } });
});

test("`config explain` shows values with their origin, and sections without values", () => {
  const text = explainedAs(good(file(TEXT)));
  expect(text).toMatch(/orgs\.acme\.weight\s+3\s+cordum\.yaml:3/);
  expect(text).toMatch(/pools\.gpu\.topics\s+train\.\*,render\.>\s+cordum\.yaml:7/);
  expect(explainedAs(good({}))).toMatch(/orgs\.<id>\.weight\s+1\s+default/);
  expect(explainedAs(good({}), "orgs.acme.weight")).toContain("CORDUM_ORGS_<ID>_WEIGHT");
  expect(() => explainedAs(good({}), "orgs.acme.wight")).toThrow("did you mean `orgs.acme.weight`?");
});
