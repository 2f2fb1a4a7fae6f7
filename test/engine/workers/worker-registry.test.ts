import { describe, expect, test } from "vitest";
import { Roster } from "../../../src/engine/workers/worker-registry.ts";

const SILENT_MS = 30_000;
const bus = { transport: "bus", topics: ["t"], capabilities: ["direct", "inline"] } as const;
const open = () => new Roster(() => SILENT_MS);
const loads = (roster: Roster, nowMs = 0) =>
  Object.fromEntries(roster.serving("t", nowMs).map(({ id, load }) => [id, load]));

describe("who is there", () => {
  test("a topic is the same with and without the prefix of its subject", () => {
    const roster = open();
    roster.hear({ id: "w", ...bus, topics: ["job.t"] }, 0);
    expect(roster.serving("t", 0).map(({ id }) => id)).toEqual(["w"]);
    expect(roster.serving("job.t", 0).map(({ id }) => id)).toEqual(["w"]);
    expect(roster.serving("u", 0)).toEqual([]);
  });

  test("who is silent for too long, or leaving, is not; who speaks again is news", () => {
    const roster = open();
    expect(roster.hear({ id: "w", ...bus }, 0)).toBe(true);
    expect(roster.hear({ id: "w", ...bus }, 10)).toBe(false);
    expect(roster.serving("t", SILENT_MS + 11)).toEqual([]);
    expect(roster.list(SILENT_MS + 11)).toEqual([]);
    expect(roster.hear({ id: "w", ...bus }, SILENT_MS + 12)).toBe(true);
    roster.hear({ id: "w", ...bus, isLeaving: true }, SILENT_MS + 13);
    expect(roster.serving("t", SILENT_MS + 13)).toEqual([]);
    expect(roster.list(SILENT_MS + 13)).toMatchObject([{ id: "w", isLeaving: true }]);
  });

  test("a handshake and a heartbeat add up; what is not said again stays", () => {
    const roster = open();
    roster.hear({ id: "w", transport: "bus", topics: ["t"], flags: ["direct"] }, 0);
    roster.hear({ id: "w", transport: "bus", capabilities: ["gpu"], maxParallelJobs: 4 }, 1);
    expect(roster.list(1)).toMatchObject([{ topics: ["t"], capabilities: ["direct", "gpu"], maxParallelJobs: 4 }]);
    expect(roster.serving("t", 1)).toMatchObject([{ isDirect: true }]);
  });

  test("a name that cannot stand in a subject is not sent to directly", () => {
    const roster = open();
    roster.hear({ id: "a.b", ...bus }, 0);
    expect(roster.serving("t", 0)).toMatchObject([{ isDirect: false }]);
  });

  test("over HTTP nobody can take the place of a worker on the bus, or of another tenant's", () => {
    const roster = open();
    roster.hear({ id: "w", ...bus }, 0);
    roster.hear({ id: "w", transport: "http", org: "acme", topics: ["t"] }, 0);
    roster.hear({ id: "w", transport: "http", org: "birch", topics: ["t"] }, 0);
    expect(roster.serving("t", 0).map(({ isDirect, org }) => [isDirect, org])).toEqual([
      [true, null],
      [false, "acme"],
      [false, "birch"],
    ]);
  });

  test("is bounded: the one that was silent for the longest makes room", () => {
    const roster = open();
    for (let index = 0; index < 10_001; index++) roster.hear({ id: `w${index}`, ...bus }, 0);
    expect(roster.list(0).length).toBe(10_000);
    expect(roster.list(0).some(({ id }) => id === "w0")).toBe(false);
  });
});

describe("one tenant's workers over HTTP", () => {
  test("however many names a key makes up, they push out nobody else's", () => {
    const roster = open();
    roster.hear({ id: "bus", ...bus }, 0);
    roster.hear({ id: "w", transport: "http", org: "birch", topics: ["t"] }, 0);
    for (let index = 0; index < 12_000; index++) {
      roster.hear({ id: `w${index}`, transport: "http", org: "acme", topics: ["t"] }, 0);
    }
    const ids = roster.list(0).map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining(["bus", "w", "w11999"]));
    expect(ids).not.toContain("w0");
    expect(ids.length).toBeLessThan(5_000);
  });

  test("of those the one that was silent for the longest makes room", () => {
    const roster = open();
    const hear = (id: string) => roster.hear({ id, transport: "http", org: "acme", topics: ["t"] }, 0);
    hear("kept");
    for (let index = 0; index < 3_000; index++) {
      hear(`w${index}`);
      hear("kept");
    }
    expect(roster.list(0).map(({ id }) => id)).toContain("kept");
    expect(roster.serving("t", 0).length).toBe(roster.list(0).length);
  });
});

describe("jobs that nobody was fit for", () => {
  test("are recalled once, and only those that are asked for", () => {
    const roster = open();
    for (const [id, name] of Object.entries({ a: "gpu", b: "tpu", c: "gpu" })) {
      roster.rememberUnfit("job.t", { id, org: "default", requires: [name] });
    }
    const recall = (name: string) => roster.recallUnfit("t", ({ requires }) => requires.includes(name));
    expect([recall("gpu"), recall("gpu"), roster.unfitSubjects()]).toEqual([["a", "c"], [], ["job.t"]]);
    expect([recall("tpu"), roster.unfitSubjects()]).toEqual([["b"], []]);
  });
});

describe("load", () => {
  test("L41: what was just sent counts before any heartbeat tells of it", () => {
    const roster = open();
    roster.hear({ id: "w", ...bus, activeJobs: 2 }, 0);
    for (let job = 0; job < 5; job++) roster.sent("w", `j${job}`, 1_000);
    expect(loads(roster)).toEqual({ w: 7 });
    roster.answered("j0");
    roster.answered("j0");
    roster.answered("unknown");
    expect(loads(roster)).toEqual({ w: 6 });
  });

  test("a heartbeat has counted what was sent before it, but not what crossed it on the way", () => {
    const roster = open();
    roster.hear({ id: "w", ...bus, activeJobs: 0 }, 0);
    roster.sent("w", "old", 1_000);
    roster.sent("w", "crossing", 4_900);
    roster.hear({ id: "w", ...bus, activeJobs: 1 }, 5_000);
    expect(loads(roster)).toEqual({ w: 2 });
    roster.answered("old");
    expect(loads(roster)).toEqual({ w: 2 });
    roster.answered("crossing");
    expect(loads(roster)).toEqual({ w: 1 });
  });

  test("of a worker that was lost is forgotten with it", () => {
    const roster = open();
    roster.hear({ id: "w", ...bus }, 0);
    roster.sent("w", "j", 0);
    roster.lost("w");
    expect(roster.serving("t", 0)).toEqual([]);
    roster.hear({ id: "w", ...bus }, 1);
    expect(loads(roster)).toEqual({ w: 0 });
  });
});

describe("pools", () => {
  test("say what their workers serve, where those do not say it themselves, and what they can do", () => {
    const roster = open();
    roster.hear({ id: "w", transport: "bus", pool: "p", capabilities: ["x"] }, 0);
    expect(roster.serving("t", 0)).toEqual([]);
    roster.setPools((pool) => ({ serves: (subject) => pool === "p" && subject === "job.t", capabilities: ["gpu"] }));
    const [known] = roster.serving("t", 0);
    expect([...(known?.capabilities ?? [])].sort()).toEqual(["gpu", "x"]);
    expect([...roster.abilitiesOf({ id: "w", transport: "bus" })].sort()).toEqual(["gpu", "x"]);
    expect([...roster.abilitiesOf({ id: "w", transport: "http", org: "acme" })]).toEqual([]);
    expect(roster.serving("u", 0)).toEqual([]);
  });
});
