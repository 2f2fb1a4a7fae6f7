// What every problem says, whatever it is about: the table of errors, as clients see it.

import { describe, expect, test } from "vitest";
import { ERRORS, type ErrorCode } from "../../src/core/model/errors.ts";
import { Problem, problemResponse } from "../../src/gateway/problem.ts";
import { SeededRandom } from "../../src/sim/random.ts";

const CODES = Object.keys(ERRORS) as ErrorCode[];
const isLater = (code: ErrorCode) => [429, 503].includes(ERRORS[code].status);

describe.each(CODES)("%s", (code) => {
  test("has the members of RFC 9457 and of our own", () => {
    const { status, body } = problemResponse(new Problem(code, "why"), () => 0.5);
    const { title, retryable } = ERRORS[code];
    const usual = { type: `urn:cordum:error:${code}`, title, status, detail: "why", error: "why", code, retryable };
    expect(body).toMatchObject({ ...usual, status: ERRORS[code].status });
    expect(status).toBe(ERRORS[code].status);
  });

  test(isLater(code) ? "says when to come again, to each something else" : "says nothing of coming again", () => {
    const random = new SeededRandom(1);
    const answers = Array.from({ length: 100 }, () => problemResponse(new Problem(code, "why"), () => random.next()));
    const headers = answers.map((answer) => answer.headers["retry-after"]);
    const delays = answers.map(({ body }) => body.retry_after_ms);
    expect(answers[0]?.body.retryable).toBe(isLater(code));
    if (!isLater(code)) {
      expect(new Set([...headers, ...delays])).toEqual(new Set([undefined]));
      return;
    }
    expect(new Set(headers)).toEqual(new Set(["1", "2", "3", "4", "5"]));
    expect(new Set(delays).size).toBeGreaterThan(50);
  });
});

test("a time that is known is never promised too early, and spread in the header as well (L11)", () => {
  const random = new SeededRandom(2);
  for (const [knownMs, least] of [
    [0, 2],
    [500, 3],
    [4_000, 2],
    [60_000, 10],
  ] as const) {
    const problem = new Problem("lock_busy", "why", { retry_after_ms: knownMs });
    const answers = Array.from({ length: 200 }, () => problemResponse(problem, () => random.next()));
    const seconds = new Set(answers.map(({ headers }) => Number(headers["retry-after"])));
    expect(Math.min(...seconds) * 1_000, `${knownMs} ms`).toBeGreaterThanOrEqual(knownMs);
    expect(seconds.size, `${knownMs} ms`).toBeGreaterThanOrEqual(least);
  }
});
