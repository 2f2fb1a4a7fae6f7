import { describe, expect, test } from "vitest";
import { ERRORS, type ErrorCode } from "../../src/core/model/errors.ts";
import { Problem, problemResponse } from "../../src/gateway/problem.ts";
import { SeededRandom } from "../../src/sim/random.ts";

const CODES = Object.keys(ERRORS) as ErrorCode[];
const isRetryable = (code: ErrorCode) => [429, 503].includes(ERRORS[code].status);

describe.each(CODES)("%s", (code) => {
  test("has the members of RFC 9457 and the Cordum extensions", () => {
    const { status, body } = problemResponse(new Problem(code, "why"), () => 0.5);
    const { title, retryable } = ERRORS[code];
    const members = { type: `urn:cordum:error:${code}`, title, status, detail: "why", error: "why", code, retryable };
    expect(body).toMatchObject({ ...members, status: ERRORS[code].status });
    expect(status).toBe(ERRORS[code].status);
  });

  test(isRetryable(code) ? "has a jittered Retry-After" : "has no Retry-After", () => {
    const random = new SeededRandom(1);
    const responses = Array.from({ length: 100 }, () => problemResponse(new Problem(code, "why"), () => random.next()));
    const headers = responses.map((response) => response.headers["retry-after"]);
    const delays = responses.map(({ body }) => body.retry_after_ms);
    expect(responses[0]?.body.retryable).toBe(isRetryable(code));
    if (!isRetryable(code)) {
      expect(new Set([...headers, ...delays])).toEqual(new Set([undefined]));
      return;
    }
    expect(new Set(headers)).toEqual(new Set(["1", "2", "3", "4", "5"]));
    expect(new Set(delays).size).toBeGreaterThan(50);
  });
});

test("Retry-After is never below a known delay, and is jittered (L11)", () => {
  const random = new SeededRandom(2);
  for (const [knownMs, least] of [
    [0, 2],
    [500, 3],
    [4_000, 2],
    [60_000, 10],
  ] as const) {
    const problem = new Problem("lock_busy", "why", { retry_after_ms: knownMs });
    const responses = Array.from({ length: 200 }, () => problemResponse(problem, () => random.next()));
    const seconds = new Set(responses.map(({ headers }) => Number(headers["retry-after"])));
    expect(Math.min(...seconds) * 1_000, `${knownMs} ms`).toBeGreaterThanOrEqual(knownMs);
    expect(seconds.size, `${knownMs} ms`).toBeGreaterThanOrEqual(least);
  }
});
