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
    load: 0,
    loadMax: 10,
    ...rest,
  };
}
const coming = (id: string, facts: Partial<Candidate> & { can?: readonly string[] } = {}) =>
  worker(id, { transport: "http", isDirect: false, org: "default", ...facts });

describe("where a job is sent", () => {
  test("to the worker with the most room, by the share of its places that is taken", () => {
    const workers = [worker("a", { load: 5 }), worker("b", { load: 4 }), worker("c", { load: 30, loadMax: 100 })];
    expect(selectTarget(any, workers, OPEN)).toMatchObject({ kind: "direct", workerId: "c" });
  });

  test("says whether the worker takes its input in the message", () => {
    const aimed = (can: readonly string[]) => selectTarget(any, [worker("a", { can })], OPEN);
    expect(aimed(["direct", "inline"])).toEqual({ kind: "direct", workerId: "a", takesInline: true });
    expect(aimed(["direct"])).toEqual({ kind: "direct", workerId: "a", takesInline: false });
  });

  test("equal loads go to the first by order, and an unknown number of places counts by load alone", () => {
    const endless = { loadMax: Number.POSITIVE_INFINITY };
    expect(selectTarget(any, [worker("a"), worker("b")], OPEN)).toMatchObject({ kind: "direct", workerId: "a" });
    expect(selectTarget(any, [worker("a", { load: 3 }), worker("b", { load: 2, ...endless })], OPEN)).toMatchObject({
      kind: "direct",
      workerId: "b",
    });
  });

  test("to the topic where nobody is known, or nobody listens directly", () => {
    expect(selectTarget(any, [], OPEN)).toEqual({ kind: "topic" });
    expect(selectTarget(gpu, [], OPEN)).toEqual({ kind: "topic" });
    expect(selectTarget(any, [worker("a", { isDirect: false })], OPEN)).toEqual({ kind: "topic" });
    expect(selectTarget(any, [coming("h")], OPEN)).toEqual({ kind: "topic" });
  });

  test("full ones leave it to those who cannot be asked directly; without such, the least loaded has to queue it", () => {
    const full = worker("a", { load: 10 });
    expect(selectTarget(any, [full, worker("silent", { isDirect: false })], OPEN)).toEqual({ kind: "topic" });
    expect(selectTarget(any, [full, worker("b", { load: 11 })], OPEN)).toMatchObject({ kind: "direct", workerId: "a" });
  });
});

describe("what a job requires", () => {
  test("decides who gets it, even if another has more room", () => {
    const workers = [worker("a"), worker("b", { load: 9, can: ["gpu"] })];
    expect(selectTarget(gpu, workers, OPEN)).toMatchObject({ kind: "direct", workerId: "b" });
  });

  test("met by nobody who is known: it waits alone, and says for what", () => {
    const aim = selectTarget(gpu, [worker("a")], OPEN);
    expect(aim).toMatchObject({ kind: "wait", isForAll: false });
    expect(aim).toMatchObject({ why: expect.stringContaining("`gpu`") });
  });

  test("met only by one that comes for its work: it stays where that finds it, and goes to no other", () => {
    expect(selectTarget(gpu, [worker("a"), coming("h", { can: ["gpu"] })], OPEN)).toEqual({ kind: "lease" });
    expect(selectTarget(gpu, [coming("h", { can: ["gpu"], org: "*" })], OPEN)).toEqual({ kind: "lease" });
  });

  test("one that comes for another tenant's work meets nothing", () => {
    const foreign = coming("h", { can: ["gpu"], org: "acme" });
    expect(selectTarget(gpu, [worker("a"), foreign], OPEN)).toMatchObject({ kind: "wait" });
  });

  test("one that comes for another tenant's work decides nothing: it is as if it were not there", () => {
    for (const foreign of [coming("h", { org: "acme" }), coming("h", { org: "acme", can: ["gpu"] })]) {
      expect(selectTarget(gpu, [foreign], OPEN)).toEqual(selectTarget(gpu, [], OPEN));
      const drained = worker("a", { pool: "old" });
      expect(selectTarget(any, [drained, foreign], draining("old"))).toEqual(
        selectTarget(any, [drained], draining("old")),
      );
    }
  });
});

describe("a pool that is being drained", () => {
  const drained = worker("a", { pool: "old" });

  test("gets nothing; others of the topic do", () => {
    const workers = [drained, worker("b", { pool: "new", load: 9 })];
    expect(selectTarget(any, workers, draining("old"))).toMatchObject({ kind: "direct", workerId: "b" });
  });

  test("full others do not open the topic's subject: the drained would hear it", () => {
    const workers = [drained, worker("b", { load: 10 }), worker("c", { isDirect: false })];
    expect(selectTarget(any, workers, draining("old"))).toMatchObject({ kind: "direct", workerId: "b" });
    expect(selectTarget(any, [drained, worker("c", { isDirect: false })], draining("old"))).toMatchObject({
      kind: "wait",
    });
  });

  test("leaves everybody waiting where it is the only one, by its workers or by the settings", () => {
    expect(selectTarget(any, [drained], draining("old"))).toMatchObject({ kind: "wait", isForAll: true });
    const named = { draining: new Set(["old"]), named: ["old"] };
    expect(selectTarget(any, [], named)).toMatchObject({ kind: "wait", isForAll: true });
    expect(selectTarget(any, [], { ...named, named: ["old", "new"] })).toEqual({ kind: "topic" });
    expect(selectTarget(any, [], draining("other"))).toEqual({ kind: "topic" });
  });

  test("one that comes for its work finds it in the backlog", () => {
    expect(selectTarget(any, [drained, coming("h")], draining("old"))).toEqual({ kind: "lease" });
  });
});
