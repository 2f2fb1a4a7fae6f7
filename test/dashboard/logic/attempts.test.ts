import { expect, test } from "vitest";
import { isShortened, spansOf } from "../../../dashboard/src/pages/jobs/attempts.ts";
import type { HistoryLine, JobDetail } from "../../../src/client/schema.ts";

const at = (ms: number) => new Date(Date.UTC(2030, 0, 1) + ms).toISOString();
const nowMs = Date.UTC(2030, 0, 1) + 60_000;

function line(ms: number, event: string, attempt: number, delay: Partial<HistoryLine> = {}): HistoryLine {
  const none = { who: null, who_name: null, why: null, retry_class: null, delay_ms: null, policy: null };
  return { at: at(ms), event, attempt, ...none, ...delay };
}

const retry = (delay_ms: number) => ({ delay_ms, retry_class: "lock_busy", policy: "bounded:500ms:0.3", why: "busy" });

function jobOf(state: JobDetail["state"], history: readonly HistoryLine[], attempt = history.length) {
  return { state, history, attempt, created_at: at(0), updated_at: at(5_000) };
}

test("L55: the newest attempt comes first, each with its delay and what chose it", () => {
  const job = jobOf("FAILED", [line(100, "failed", 1, retry(400)), line(700, "failed", 2, { why: "disk full" })]);
  const [newest, oldest] = spansOf(job, false, nowMs);
  expect(newest).toMatchObject({ attempt: 2, event: "failed", why: "disk full", delay: null });
  expect(oldest).toMatchObject({ attempt: 1, why: "busy", delay: { ms: 400, policy: "bounded:500ms:0.3" } });
  // The second attempt began when the delay of the first had ended.
  expect(newest?.fromMs).toBe(Date.parse(at(500)));
});

test("an open job has a span that reaches to now", () => {
  const [open] = spansOf(jobOf("RUNNING", [line(100, "failed", 1, retry(400))], 2), true, nowMs);
  expect(open).toMatchObject({ event: null, attempt: 2, fromMs: Date.parse(at(500)), toMs: nowMs });
});

test("a job that waits for its retry has no attempt yet", () => {
  const spans = spansOf(jobOf("RETRYING", [line(100, "failed", 1, retry(120_000))], 1), true, nowMs);
  expect(spans.map(({ key }) => key)).not.toContain("open");
});

test("a retry that was started early ends its delay", () => {
  const [, first] = spansOf(
    jobOf("SUCCEEDED", [line(100, "failed", 1, retry(9_000)), line(300, "succeeded", 2)]),
    false,
    nowMs,
  );
  expect(first?.delay?.toMs).toBe(Date.parse(at(300)));
});

test("reports a history whose middle was dropped", () => {
  expect(isShortened([line(1, "failed", 1), line(2, "failed", 2)])).toBe(false);
  expect(isShortened([line(1, "failed", 1), line(2, "failed", 7)])).toBe(true);
});
