import { describe, expect, test } from "vitest";
import { WorkerRegistry } from "../../../src/engine/workers/worker-registry.ts";

const SILENT_MS = 30_000;
const bus = { transport: "bus", topics: ["t"], capabilities: ["direct", "inline"] } as const;
const open = () => new WorkerRegistry(() => SILENT_MS);
const loads = (registry: WorkerRegistry, nowMs = 0) =>
  Object.fromEntries(registry.serving("t", nowMs).map(({ id, load }) => [id, load]));

describe("who is there", () => {
  test("a topic is the same with and without the prefix of its subject", () => {
    const registry = open();
    registry.record({ id: "w", ...bus, topics: ["job.t"] }, 0);
    expect(registry.serving("t", 0).map(({ id }) => id)).toEqual(["w"]);
    expect(registry.serving("job.t", 0).map(({ id }) => id)).toEqual(["w"]);
    expect(registry.serving("u", 0)).toEqual([]);
  });

  test("who is silent for too long, or leaving, is not; who speaks again is news", () => {
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

  test("a handshake and a heartbeat add up; what is not said again stays", () => {
    const registry = open();
    registry.record({ id: "w", transport: "bus", topics: ["t"], flags: ["direct"] }, 0);
    registry.record({ id: "w", transport: "bus", capabilities: ["gpu"], maxParallelJobs: 4 }, 1);
    expect(registry.list(1)).toMatchObject([{ topics: ["t"], capabilities: ["direct", "gpu"], maxParallelJobs: 4 }]);
    expect(registry.serving("t", 1)).toMatchObject([{ isDirect: true }]);
  });

  test("a name that cannot stand in a subject is not sent to directly", () => {
    const registry = open();
    registry.record({ id: "a.b", ...bus }, 0);
    expect(registry.serving("t", 0)).toMatchObject([{ isDirect: false }]);
  });

  test("over HTTP nobody can take the place of a worker on the bus, or of another tenant's", () => {
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

  test("is bounded: the one that was silent for the longest makes room", () => {
    const registry = open();
    for (let index = 0; index < 10_001; index++) registry.record({ id: `w${index}`, ...bus }, 0);
    expect(registry.list(0).length).toBe(10_000);
    expect(registry.list(0).some(({ id }) => id === "w0")).toBe(false);
  });
});

describe("one tenant's workers over HTTP", () => {
  test("however many names a key makes up, they push out nobody else's", () => {
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

  test("of those the one that was silent for the longest makes room", () => {
    const registry = open();
    const hear = (id: string) => registry.record({ id, transport: "http", org: "acme", topics: ["t"] }, 0);
    hear("kept");
    for (let index = 0; index < 3_000; index++) {
      hear(`w${index}`);
      hear("kept");
    }
    expect(registry.list(0).map(({ id }) => id)).toContain("kept");
    expect(registry.serving("t", 0).length).toBe(registry.list(0).length);
  });
});

describe("jobs that nobody was fit for", () => {
  test("are recalled once, and only those that are asked for", () => {
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
  test("L41: what was just sent counts before any heartbeat tells of it", () => {
    const registry = open();
    registry.record({ id: "w", ...bus, activeJobs: 2 }, 0);
    for (let job = 0; job < 5; job++) registry.recordSent("w", `j${job}`, 1_000);
    expect(loads(registry)).toEqual({ w: 7 });
    registry.recordAnswer("j0");
    registry.recordAnswer("j0");
    registry.recordAnswer("unknown");
    expect(loads(registry)).toEqual({ w: 6 });
  });

  test("a heartbeat has counted what was sent before it, but not what crossed it on the way", () => {
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

  test("of a worker that was lost is forgotten with it", () => {
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
  test("say what their workers serve, where those do not say it themselves, and what they can do", () => {
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
