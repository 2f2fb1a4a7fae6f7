import { afterEach, describe, expect, test } from "vitest";
import { type FakeResponse, spread } from "../fake.ts";
import { cordum } from "../run.ts";
import { at, type RunFake, runAfter, startRunFake, WAITS, WORKFLOW } from "./run-fake.ts";

let fake: RunFake;

afterEach(() => fake?.close());

/** A run that advances by one entry of `seconds` per request and stays at the last one. */
function scripted(seconds: readonly number[], end = "SUCCEEDED") {
  const left = [...seconds];
  let now = 0;
  return (path: string): FakeResponse => {
    if (path.endsWith("/explain")) return { status: 200, body: { waits: now >= 1 && now < 3 ? WAITS : [] } };
    if (path.startsWith("/workflows/")) return { status: 200, body: WORKFLOW };
    now = left.shift() ?? now;
    return { status: 200, body: runAfter(now, end) };
  };
}

/** A clock that starts with the run and advances with `sleep`. */
function clock() {
  let nowMs = Date.parse(at(0));
  const pauses: number[] = [];
  return {
    pauses,
    io: {
      nowMs: () => nowMs,
      sleep: async (delayMs: number) => {
        pauses.push(delayMs);
        nowMs += delayMs;
      },
    },
  };
}

const EVENT = 'event: run\ndata: {"run_id":"r1"}\n\n';
const screen = () => ({ columns: 80, rows: 24, color: false });
const CLEAR = "\u001b[K\n";

describe("without a terminal", () => {
  test("prints one line per change and the end", async () => {
    const answer = scripted([0, 0, 1, 2, 3, 3, 4]);
    fake = await startRunFake(({ path }) => answer(path));
    const ran = await cordum(["run", "watch", "r1"], fake.env, "", clock().io);
    expect(ran.out.split("\n")).toEqual([
      "       0 ms  run r1  RUNNING",
      "       0 ms  fetch  RUNNING",
      "      1.0 s  fetch  SUCCEEDED",
      "      1.0 s  resize  RUNNING  ▓▓▓░░░░░░░ 1,240/4,000  3 failed",
      "      1.0 s  check  SUCCEEDED  → then",
      "      1.0 s  publish  RUNNING  a human has to decide",
      "      3.0 s  resize  SUCCEEDED  ▓▓▓▓▓▓▓▓▓▓ 4,000/4,000  3 failed",
      "      3.0 s  publish  SUCCEEDED",
      "      4.0 s  tell  SUCCEEDED",
      "      4.0 s  run r1  SUCCEEDED",
      "",
    ]);
    expect(ran).toMatchObject({ exitCode: 0, err: "run r1 SUCCEEDED after 4.0 s\n" });
  });

  test("--json prints NDJSON; a failed run exits with 1", async () => {
    const answer = scripted([3, 4], "FAILED");
    fake = await startRunFake(({ path }) => answer(path));
    const ran = await cordum(["run", "watch", "r1", "--json"], fake.env, "", clock().io);
    const lines = ran.out.trim().split("\n");
    const documents = lines.map((line) => JSON.parse(line));
    expect(documents.map(({ event, step_id, state }) => [event, step_id ?? null, state])).toEqual([
      ["run", null, "RUNNING"],
      ["step", "fetch", "SUCCEEDED"],
      ["step", "check", "SUCCEEDED"],
      ["step", "resize", "SUCCEEDED"],
      ["step", "publish", "SUCCEEDED"],
      ["step", "tell", "FAILED"],
      ["run", null, "FAILED"],
    ]);
    expect(documents[3]).toMatchObject({ run_id: "r1", children: { count: 4_000, failed: 3 } });
    expect(documents.at(-1)).toMatchObject({ error: { message: "no more disk" }, output: null });
    expect(ran).toMatchObject({ exitCode: 1, err: "" });
  });
});

describe("on a terminal", () => {
  test("redraws in place with the pending actions", async () => {
    const answer = scripted([1, 4]);
    fake = await startRunFake(({ path }) => answer(path));
    const ran = await cordum(["run", "watch", "r1"], fake.env, "", { ...clock().io, screen });
    const [first = "", second = ""] = ran.out.split("\u001b[11A\r");
    const lines = first.split(CLEAR);
    expect(lines).toEqual([
      "run r1  photos v3  RUNNING  0 ms  2 of 5 steps done",
      "✓    fetch    SUCCEEDED     1.0 s",
      "├─╮",
      "│ ●  resize   RUNNING        0 ms  ▓▓▓░░░░░░░ 1,240/4,000  3 failed",
      "│ │",
      "✓ │  check    SUCCEEDED            → then",
      "│ │",
      "◆ │  publish  RUNNING        0 ms  a human has to decide",
      "│ │    cordum approval approve r1:publish@1",
      "├─╯",
      "○    tell     PENDING",
      "\u001b[J",
    ]);
    expect(second.split(CLEAR)[0]).toBe("run r1  photos v3  SUCCEEDED  4.0 s  5 of 5 steps done");
    expect(ran).toMatchObject({ exitCode: 0, err: "run r1 SUCCEEDED after 4.0 s\n" });
  });

  test("skips unchanged pictures and fetches the workflow once", async () => {
    const answer = scripted([1, 1, 1, 1, 4]);
    fake = await startRunFake(({ path }) => answer(path));
    const sleep = async () => {
      fake.send(EVENT);
      await new Promise(setImmediate);
    };
    const still = { nowMs: () => Date.parse(at(0)), sleep, screen };
    const ran = await cordum(["run", "watch", "r1"], fake.env, "", still);
    expect(ran.out.split("\u001b[J")).toHaveLength(3);
    expect(fake.asked.filter(({ path }) => path.startsWith("/workflows/"))).toHaveLength(1);
    expect(fake.asked.find(({ path }) => path.startsWith("/workflows/"))?.path).toBe("/workflows/photos?version=3");
  });

  test("redraws everything after a resize", async () => {
    const answer = scripted([1, 4]);
    fake = await startRunFake(({ path }) => answer(path));
    const widths = [80, 80, 80, 60];
    const ran = await cordum(["run", "watch", "r1"], fake.env, "", {
      ...clock().io,
      screen: () => ({ columns: widths.shift() ?? 60, rows: 24, color: false }),
    });
    expect(ran.out.split("\u001b[2J\u001b[H")).toHaveLength(2);
  });
});

describe("polling", () => {
  test("polls once a second and checks for events in between", async () => {
    const answer = scripted([0, 1, 4]);
    fake = await startRunFake(({ path }) => answer(path));
    const { io, pauses } = clock();
    await cordum(["run", "watch", "r1"], fake.env, "", io);
    expect(pauses).toEqual(Array(20).fill(100));
  });

  test("subscribes to the run only and polls early on its events", async () => {
    const answer = scripted([0, 4]);
    fake = await startRunFake(({ path }) => answer(path));
    let pauses = 0;
    const nowMs = () => Date.parse(at(0));
    const sleep = async () => {
      pauses += 1;
      // Split over two chunks; comments are no events.
      for (const part of pauses < 5 ? [": heartbeat\n\n"] : [EVENT.slice(0, 20), EVENT.slice(20)]) {
        fake.send(part);
        await new Promise(setImmediate);
      }
    };
    const ran = await cordum(["run", "watch", "r1"], fake.env, "", { nowMs, sleep });
    expect(ran.exitCode).toBe(0);
    expect(pauses).toBeGreaterThanOrEqual(5);
    expect(fake.streams).toEqual(["/stream?run=r1"]);
  });

  test("waits for Retry-After", async () => {
    const answer = scripted([4]);
    let isFirst = true;
    fake = await startRunFake(({ path }) => {
      if (!isFirst) return answer(path);
      isFirst = false;
      return { status: 503, body: { code: "lock_busy", retry_after_ms: 777 } };
    });
    const { io, pauses } = clock();
    expect(await cordum(["run", "watch", "r1"], fake.env, "", io)).toMatchObject({ exitCode: 0 });
    expect(pauses).toEqual([spread(777)]);
  });

  test("an unknown run exits with 3 and names the list command", async () => {
    fake = await startRunFake(() => ({ status: 404, body: { code: "run_not_found", title: "no", detail: "none" } }));
    const ran = await cordum(["run", "watch", "r1", "--json"], fake.env);
    expect(ran.exitCode).toBe(3);
    expect(ran.out.trim().split("\n")).toHaveLength(1);
    expect(JSON.parse(ran.out)).toMatchObject({ event: "error", code: "run_not_found", next: "cordum run list" });
  });
});
