import { describe, expect, test } from "vitest";
import { type Candidate, type PoolsOfTopic, selectTarget } from "../../../src/core/jobs/select-target.ts";

const OPEN: PoolsOfTopic = { draining: new Set(), named: [] };
const draining = (...names: string[]): PoolsOfTopic => ({ draining: new Set(names), named: [] });
const any = { org: "default", requires: [] };
const gpu = { org: "default", requires: ["gpu"] };

function worker(id: string, facts: Partial<Candidate> & { can?: readonly string[] } = {}): Candidate {
  const { can = [], ...rest } = facts;
  return {
    id,
    pool: null,
    transport: "bus",
    org: null,
    capabilities: new Set(can),
    isDirect: true,
    isUnsupported: false,
    load: 0,
    loadMax: 10,
    ...rest,
  };
}
const coming = (id: string, facts: Partial<Candidate> & { can?: readonly string[] } = {}) =>
  worker(id, { transport: "http", isDirect: false, isUnsupported: false, org: "default", ...facts });

describe("target selection", () => {
  test("selects the worker with the lowest relative load", () => {
    const workers = [worker("a", { load: 5 }), worker("b", { load: 4 }), worker("c", { load: 30, loadMax: 100 })];
    expect(selectTarget(any, workers, OPEN)).toMatchObject({ kind: "direct", workerId: "c" });
  });

  test("reports whether the worker accepts inline input", () => {
    const aimed = (can: readonly string[]) => selectTarget(any, [worker("a", { can })], OPEN);
    expect(aimed(["direct", "inline"])).toEqual({ kind: "direct", workerId: "a", takesInline: true });
    expect(aimed(["direct"])).toEqual({ kind: "direct", workerId: "a", takesInline: false });
  });

  test("ties go to the first worker, and unknown capacity compares by load", () => {
    const endless = { loadMax: Number.POSITIVE_INFINITY };
    expect(selectTarget(any, [worker("a"), worker("b")], OPEN)).toMatchObject({ kind: "direct", workerId: "a" });
    expect(selectTarget(any, [worker("a", { load: 3 }), worker("b", { load: 2, ...endless })], OPEN)).toMatchObject({
      kind: "direct",
      workerId: "b",
    });
  });

  test("uses the topic if no worker has its own subject", () => {
    expect(selectTarget(any, [], OPEN)).toEqual({ kind: "topic" });
    expect(selectTarget(gpu, [], OPEN)).toEqual({ kind: "topic" });
    expect(selectTarget(any, [worker("a", { isDirect: false })], OPEN)).toEqual({ kind: "topic" });
    expect(selectTarget(any, [coming("h")], OPEN)).toEqual({ kind: "topic" });
  });

  test("at capacity prefers the topic's other workers, else the least loaded worker", () => {
    const full = worker("a", { load: 10 });
    expect(selectTarget(any, [full, worker("silent", { isDirect: false })], OPEN)).toEqual({ kind: "topic" });
    expect(selectTarget(any, [full, worker("b", { load: 11 })], OPEN)).toMatchObject({ kind: "direct", workerId: "a" });
  });
});

describe("requirements of a job", () => {
  test("take precedence over load", () => {
    const workers = [worker("a"), worker("b", { load: 9, can: ["gpu"] })];
    expect(selectTarget(gpu, workers, OPEN)).toMatchObject({ kind: "direct", workerId: "b" });
  });

  test("met by no known worker: the job waits with a reason", () => {
    const aim = selectTarget(gpu, [worker("a")], OPEN);
    expect(aim).toMatchObject({ kind: "wait", isForAll: false });
    expect(aim).toMatchObject({ why: expect.stringContaining("`gpu`") });
  });

  test("met only by an HTTP worker: the job stays in the backlog", () => {
    expect(selectTarget(gpu, [worker("a"), coming("h", { can: ["gpu"] })], OPEN)).toEqual({ kind: "lease" });
    expect(selectTarget(gpu, [coming("h", { can: ["gpu"], org: "*" })], OPEN)).toEqual({ kind: "lease" });
  });

  test("an HTTP worker of another tenant meets nothing", () => {
    const foreign = coming("h", { can: ["gpu"], org: "acme" });
    expect(selectTarget(gpu, [worker("a"), foreign], OPEN)).toMatchObject({ kind: "wait" });
  });

  test("an HTTP worker of another tenant is ignored", () => {
    for (const foreign of [coming("h", { org: "acme" }), coming("h", { org: "acme", can: ["gpu"] })]) {
      expect(selectTarget(gpu, [foreign], OPEN)).toEqual(selectTarget(gpu, [], OPEN));
      const drained = worker("a", { pool: "old" });
      expect(selectTarget(any, [drained, foreign], draining("old"))).toEqual(
        selectTarget(any, [drained], draining("old")),
      );
    }
  });
});

describe("a draining pool", () => {
  const drained = worker("a", { pool: "old" });

  test("gets nothing; other pools of the topic do", () => {
    const workers = [drained, worker("b", { pool: "new", load: 9 })];
    expect(selectTarget(any, workers, draining("old"))).toMatchObject({ kind: "direct", workerId: "b" });
  });

  test("keeps the topic's subject closed even if other pools are at capacity", () => {
    const workers = [drained, worker("b", { load: 10 }), worker("c", { isDirect: false })];
    expect(selectTarget(any, workers, draining("old"))).toMatchObject({ kind: "direct", workerId: "b" });
    expect(selectTarget(any, [drained, worker("c", { isDirect: false })], draining("old"))).toMatchObject({
      kind: "wait",
    });
  });

  test("makes jobs wait if it is the only pool of the topic", () => {
    expect(selectTarget(any, [drained], draining("old"))).toMatchObject({ kind: "wait", isForAll: true });
    const named = { draining: new Set(["old"]), named: ["old"] };
    expect(selectTarget(any, [], named)).toMatchObject({ kind: "wait", isForAll: true });
    expect(selectTarget(any, [], { ...named, named: ["old", "new"] })).toEqual({ kind: "topic" });
    expect(selectTarget(any, [], draining("other"))).toEqual({ kind: "topic" });
  });

  test("leaves jobs in the backlog for HTTP workers", () => {
    expect(selectTarget(any, [drained, coming("h")], draining("old"))).toEqual({ kind: "lease" });
  });
});
