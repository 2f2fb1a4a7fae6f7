import { describe, expect, test } from "vitest";
import { WorkerRegistry } from "../../../src/engine/workers/worker-registry.ts";

const SILENT_MS = 30_000;
const bus = { transport: "bus", topics: ["t"], capabilities: ["direct", "inline"] } as const;
const open = () => new WorkerRegistry(() => SILENT_MS);
const loads = (registry: WorkerRegistry, nowMs = 0) =>
  Object.fromEntries(registry.serving("t", nowMs).map(({ id, load }) => [id, load]));

describe("registered workers", () => {
  test("match a topic with and without the subject prefix", () => {
    const registry = open();
    registry.record({ id: "w", ...bus, topics: ["job.t"] }, 0);
    expect(registry.serving("t", 0).map(({ id }) => id)).toEqual(["w"]);
    expect(registry.serving("job.t", 0).map(({ id }) => id)).toEqual(["w"]);
    expect(registry.serving("u", 0)).toEqual([]);
  });

  test("disappear when silent or leaving, and are new when seen again", () => {
    const registry = open();
    expect(registry.record({ id: "w", ...bus }, 0)).toBe(true);
    expect(registry.record({ id: "w", ...bus }, 10)).toBe(false);
    expect(registry.serving("t", SILENT_MS + 11)).toEqual([]);
    expect(registry.list(SILENT_MS + 11)).toEqual([]);
    expect(registry.record({ id: "w", ...bus }, SILENT_MS + 12)).toBe(true);
    registry.record({ id: "w", ...bus, isLeaving: true }, SILENT_MS + 13);
    expect(registry.serving("t", SILENT_MS + 13)).toEqual([]);
    expect(registry.list(SILENT_MS + 13)).toMatchObject([{ id: "w", isLeaving: true }]);
  });

  test("merge handshake and heartbeat; omitted fields stay", () => {
    const registry = open();
    registry.record({ id: "w", transport: "bus", topics: ["t"], flags: ["direct"] }, 0);
    registry.record({ id: "w", transport: "bus", capabilities: ["gpu"], maxParallelJobs: 4 }, 1);
    expect(registry.list(1)).toMatchObject([{ topics: ["t"], capabilities: ["direct", "gpu"], maxParallelJobs: 4 }]);
    expect(registry.serving("t", 1)).toMatchObject([{ isDirect: true }]);
  });

  test("with an id that is not valid in a subject are not dispatched to directly", () => {
    const registry = open();
    registry.record({ id: "a.b", ...bus }, 0);
    expect(registry.serving("t", 0)).toMatchObject([{ isDirect: false }]);
  });

  test("over HTTP are separate from bus workers and from other tenants' workers", () => {
    const registry = open();
    registry.record({ id: "w", ...bus }, 0);
    registry.record({ id: "w", transport: "http", org: "acme", topics: ["t"] }, 0);
    registry.record({ id: "w", transport: "http", org: "birch", topics: ["t"] }, 0);
    expect(registry.serving("t", 0).map(({ isDirect, org }) => [isDirect, org])).toEqual([
      [true, null],
      [false, "acme"],
      [false, "birch"],
    ]);
  });

  test("are bounded: the one silent for the longest is evicted", () => {
    const registry = open();
    for (let index = 0; index < 10_001; index++) registry.record({ id: `w${index}`, ...bus }, 0);
    expect(registry.list(0).length).toBe(10_000);
    expect(registry.list(0).some(({ id }) => id === "w0")).toBe(false);
  });
});

describe("HTTP workers of one tenant", () => {
  test("do not evict other workers, whatever their number", () => {
    const registry = open();
    registry.record({ id: "bus", ...bus }, 0);
    registry.record({ id: "w", transport: "http", org: "birch", topics: ["t"] }, 0);
    for (let index = 0; index < 12_000; index++) {
      registry.record({ id: `w${index}`, transport: "http", org: "acme", topics: ["t"] }, 0);
    }
    const ids = registry.list(0).map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining(["bus", "w", "w11999"]));
    expect(ids).not.toContain("w0");
    expect(ids.length).toBeLessThan(5_000);
  });

  test("evict their longest silent worker", () => {
    const registry = open();
    const recordHttp = (id: string) => registry.record({ id, transport: "http", org: "acme", topics: ["t"] }, 0);
    recordHttp("kept");
    for (let index = 0; index < 3_000; index++) {
      recordHttp(`w${index}`);
      recordHttp("kept");
    }
    expect(registry.list(0).map(({ id }) => id)).toContain("kept");
    expect(registry.serving("t", 0).length).toBe(registry.list(0).length);
  });
});

describe("jobs without an eligible worker", () => {
  test("are recalled once, and only those that match", () => {
    const registry = open();
    for (const [id, name] of Object.entries({ a: "gpu", b: "tpu", c: "gpu" })) {
      registry.rememberIneligible("job.t", { id, org: "default", requires: [name] });
    }
    const recall = (name: string) => registry.takeEligible("t", ({ requires }) => requires.includes(name));
    expect([recall("gpu"), recall("gpu"), registry.ineligibleSubjects()]).toEqual([["a", "c"], [], ["job.t"]]);
    expect([recall("tpu"), registry.ineligibleSubjects()]).toEqual([["b"], []]);
  });
});

describe("load", () => {
  test("L41: counts dispatched jobs before the next heartbeat", () => {
    const registry = open();
    registry.record({ id: "w", ...bus, activeJobs: 2 }, 0);
    for (let job = 0; job < 5; job++) registry.recordSent("w", `j${job}`, 1_000);
    expect(loads(registry)).toEqual({ w: 7 });
    registry.recordAnswer("j0");
    registry.recordAnswer("j0");
    registry.recordAnswer("unknown");
    expect(loads(registry)).toEqual({ w: 6 });
  });

  test("a heartbeat covers earlier dispatches but not concurrent ones", () => {
    const registry = open();
    registry.record({ id: "w", ...bus, activeJobs: 0 }, 0);
    registry.recordSent("w", "old", 1_000);
    registry.recordSent("w", "crossing", 4_900);
    registry.record({ id: "w", ...bus, activeJobs: 1 }, 5_000);
    expect(loads(registry)).toEqual({ w: 2 });
    registry.recordAnswer("old");
    expect(loads(registry)).toEqual({ w: 2 });
    registry.recordAnswer("crossing");
    expect(loads(registry)).toEqual({ w: 1 });
  });

  test("of a removed worker is forgotten", () => {
    const registry = open();
    registry.record({ id: "w", ...bus }, 0);
    registry.recordSent("w", "j", 0);
    registry.remove("w");
    expect(registry.serving("t", 0)).toEqual([]);
    registry.record({ id: "w", ...bus }, 1);
    expect(loads(registry)).toEqual({ w: 0 });
  });
});

describe("pools", () => {
  test("define topics and capabilities of workers that do not report them", () => {
    const registry = open();
    registry.record({ id: "w", transport: "bus", pool: "p", capabilities: ["x"] }, 0);
    expect(registry.serving("t", 0)).toEqual([]);
    registry.setPools((pool) => ({ serves: (subject) => pool === "p" && subject === "job.t", capabilities: ["gpu"] }));
    const [known] = registry.serving("t", 0);
    expect([...(known?.capabilities ?? [])].sort()).toEqual(["gpu", "x"]);
    expect([...registry.capabilitiesOf({ id: "w", transport: "bus" })].sort()).toEqual(["gpu", "x"]);
    expect([...registry.capabilitiesOf({ id: "w", transport: "http", org: "acme" })]).toEqual([]);
    expect(registry.serving("u", 0)).toEqual([]);
  });
});
