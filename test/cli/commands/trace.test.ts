import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { encodeRecord, recordDocument } from "../../../src/core/contention/codec.ts";
import { acquisition, record } from "../../core/contention/fixtures.ts";
import { type FakeGateway, startFake } from "../fake.ts";
import { cordum } from "../run.ts";
import { Transcript } from "../transcript.ts";

const dir = mkdtempSync(join(tmpdir(), "cordum-trace-"));
const NOW = 1_700_000_000_000;
const POLICIES = ["--policy", "fixed:500ms", "--policy", "bounded:500ms:0.3"];
let fake: FakeGateway;

/** Two minutes of one process, in pages of one record. */
beforeAll(async () => {
  const burst = (atMs: number) =>
    Array.from({ length: 40 }, (_, at) =>
      acquisition({
        key: atMs % 1_000,
        arrivedMs: atMs + (at % 3),
        waitMs: 30 * at,
        attempts: 1 + (at % 3),
        wasBlocked: true,
      }),
    );
  const inForce = { lockBusyPolicy: "bounded:500ms:0.3", engineWaitMs: 0, coalesce: false };
  const pages = [NOW - 60_000, NOW - 120_001].map((atMs) =>
    recordDocument(encodeRecord(record({ fromMs: atMs, toMs: atMs + 60_000, inForce, acquisitions: burst(atMs) }))),
  );
  fake = await startFake(({ path }) => {
    const page = path.includes("cursor=2") ? 1 : 0;
    return { status: 200, body: { items: [pages[page]], next_cursor: page === 0 ? "2" : null } };
  });
});

afterAll(() => {
  fake.close();
  rmSync(dir, { recursive: true, force: true });
});

describe("cordum trace export", () => {
  test("writes a file that replays to the same figures as the record of the control plane", async () => {
    const file = join(dir, "trace.json");
    const change = { nowMs: () => NOW };
    const exported = await cordum(["trace", "export", file, "--last", "2h", "--json"], fake.env, "", change);
    expect(exported.exitCode).toBe(0);
    expect(JSON.parse(exported.out)).toEqual({ file, records: 2, acquisitions: 80 });
    expect(exported.err).toContain(`next: cordum lab replay --from ${file}`);
    expect(fake.requests[0]?.path).toBe(`/contention?since=${NOW - 7_200_000}&limit=50`);
    expect(fake.requests[1]?.path).toContain("cursor=2");
    const replay = ["lab", "replay", ...POLICIES, "--json"];
    const [direct, from] = [await cordum(replay, fake.env), await cordum([...replay, "--from", file])];
    expect(direct.exitCode).toBe(0);
    expect(from.out).toBe(direct.out);
    const { experiment, results } = JSON.parse(direct.out);
    expect(experiment).toBe("replay");
    expect(results.map(({ policy }: { policy: string }) => policy)).toEqual([
      "recorded",
      "fixed:500ms",
      "bounded:500ms:0.3",
    ]);
  });

  test("reports a file that cannot be written", async () => {
    const ran = await cordum(["trace", "export", join(dir, "none", "trace.json")], fake.env);
    expect(ran.exitCode).toBe(1);
    expect(ran.err).toContain("cannot write");
  });
});

describe("cordum lab replay", () => {
  test("prints tables and the chart of arrivals, and writes a report", async () => {
    const transcript = new Transcript(fake.env);
    const file = join(dir, "trace.json");
    transcript.name(file, "FILE");
    await transcript.both(["trace", "export", file]);
    await transcript.both(["lab", "replay", "--from", file, ...POLICIES]);
    await expect(transcript.text).toMatchFileSnapshot("../golden/replay.txt");
    const out = join(dir, "report");
    expect((await cordum(["lab", "replay", "--from", file, "--out", out])).exitCode).toBe(0);
    expect(readFileSync(join(out, "replay.html"), "utf8")).toContain("Lock attempts over time");
  });

  test.each([
    ["{", "it is not JSON, or it was cut off"],
    ['{"format":"other","records":[]}', "not a file of `cordum trace export`"],
    ['{"format":"cordum-contention","records":[{}]}', "record 1: the contention record is damaged"],
    ['{"format":"cordum-contention","records":[]}', "has no recorded lock contention"],
  ])("rejects a file with %s", async (text, message) => {
    const file = join(dir, "bad.json");
    writeFileSync(file, text);
    const ran = await cordum(["lab", "replay", "--from", file, ...POLICIES]);
    expect(ran).toMatchObject({ out: "" });
    expect([2, 3]).toContain(ran.exitCode);
    expect(ran.err).toContain(message);
    expect(ran.err).toContain("next: cordum");
  });

  test("rejects a policy that cannot be parsed", async () => {
    const ran = await cordum(["lab", "replay", "--policy", "nonsense"], fake.env);
    expect(ran.exitCode).toBe(2);
    expect(ran.err).toContain("unknown retry policy `nonsense`");
  });
});
