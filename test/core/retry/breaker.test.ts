import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Breaker,
  type BreakerContext,
  type BreakerEvent,
  CLOSED,
  OPEN_GROWTH_MAX,
  openInterval,
  permission,
  stepBreaker,
} from "../../../src/core/retry/breaker.ts";

const RULE = { failures: 3, openMs: 1_000, probes: 2, probeMs: 500 };
const at = (nowMs: number, random = 0.5): BreakerContext => ({ nowMs, random: () => random, rule: RULE });
const failed = (probe: string | null = null): BreakerEvent => ({ kind: "failed", probe, reason: "timeout" });
const claimed = (probe: string): BreakerEvent => ({ kind: "claimed", probe });
const succeeded = (probe: string | null = null): BreakerEvent => ({ kind: "succeeded", probe });
const run = (events: readonly BreakerEvent[], context = at(0), from: Breaker = CLOSED): Breaker =>
  events.reduce((breaker, event) => stepBreaker(breaker, event, context), from);
const opened = () => run([failed(), failed(), failed()]);

describe("the circuit breaker", () => {
  test("opens after consecutive failures; a success resets the count", () => {
    expect(run([failed(), failed()])).toEqual({ kind: "closed", failures: 2 });
    expect(run([failed(), failed(), succeeded(), failed(), failed()])).toEqual({ kind: "closed", failures: 2 });
    expect(opened()).toEqual({ kind: "open", untilMs: 1_000, openings: 1, reason: "timeout" });
  });

  test("L28: half open admits a limited number of probes until one succeeds", () => {
    const probing = run([claimed("a"), claimed("b"), claimed("c")], at(1_000), opened());
    expect(probing).toMatchObject({ kind: "half_open", probes: [{ id: "a" }, { id: "b" }] });
    expect(permission(probing, at(1_000))).toBe("wait");
    expect(stepBreaker(probing, succeeded("c"), at(1_100))).toBe(probing);
    expect(stepBreaker(probing, succeeded("b"), at(1_100))).toBe(CLOSED);
  });

  test("a failed probe opens it again for longer, up to a limit", () => {
    let breaker = opened();
    const lasted: number[] = [];
    for (let round = 0, nowMs = 1_000; round < 6; round++) {
      breaker = run([claimed("p"), failed("p")], at(nowMs), breaker);
      if (breaker.kind !== "open") throw new Error("not open");
      lasted.push(breaker.untilMs - nowMs);
      nowMs = breaker.untilMs;
    }
    expect(lasted).toEqual([2_000, 2_000, 2_000, 2_000, 2_000, 2_000]);
  });

  test("ignores results of calls made before it opened", () => {
    const open = opened();
    expect(run([failed(), succeeded(), succeeded("old"), failed("old")], at(10), open)).toBe(open);
    const again = run([claimed("a"), claimed("b"), failed("a"), succeeded("b")], at(1_000), open);
    expect(again).toMatchObject({ kind: "open", openings: 2 });
  });

  test("an expired probe frees its place; a released one frees it at once", () => {
    const full = run([claimed("a"), claimed("b")], at(1_000), opened());
    expect(permission(full, at(1_499))).toBe("wait");
    expect(permission(full, at(1_500))).toBe("probe");
    expect(run([claimed("c")], at(1_500), full)).toMatchObject({ probes: [{ id: "c" }] });
    expect(permission(run([{ kind: "released", probe: "a" }], at(1_001), full), at(1_001))).toBe("probe");
  });

  test("a clock set back by hours does not keep it open", () => {
    const open = run([failed(), failed(), failed()], at(3_600_000_000));
    expect(permission(open, at(3_600_000_000))).toBe("wait");
    expect(permission(open, at(0))).toBe("probe");
  });
});

const anyGiven = fc
  .record({
    nowMs: fc.integer({ min: 0, max: 100_000 }),
    draw: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    failures: fc.integer({ min: 1, max: 5 }),
    openMs: fc.integer({ min: 100, max: 10_000 }),
    probes: fc.integer({ min: 1, max: 4 }),
    probeMs: fc.integer({ min: 10, max: 5_000 }),
  })
  .map(({ nowMs, draw, ...rule }) => ({ nowMs, random: () => draw, rule }));
const anyProbe = fc.constantFrom("a", "b", "c", "d", "e", "f");
const anyEvent: fc.Arbitrary<BreakerEvent> = fc.oneof(
  anyProbe.map(claimed),
  fc.option(anyProbe, { nil: null }).map(succeeded),
  fc.option(anyProbe, { nil: null }).map(failed),
  anyProbe.map((probe): BreakerEvent => ({ kind: "released", probe })),
);
/** Random events at increasing times. */
const anyHistory = fc.tuple(anyGiven, fc.array(fc.tuple(fc.nat(2_000), anyEvent), { maxLength: 60 }));

function walk(history: [BreakerContext, [number, BreakerEvent][]], see: (step: Step) => void): void {
  const [context, events] = history;
  let { nowMs } = context;
  let before: Breaker = CLOSED;
  for (const [passedMs, event] of events) {
    nowMs += passedMs;
    const after = stepBreaker(before, event, { ...context, nowMs });
    see({ before, event, after, context: { ...context, nowMs } });
    before = after;
  }
}

interface Step {
  readonly before: Breaker;
  readonly event: BreakerEvent;
  readonly after: Breaker;
  readonly context: BreakerContext;
}

describe("any sequence of events", () => {
  test("never exceeds the probe limit", () => {
    fc.assert(
      fc.property(anyHistory, (history) => {
        walk(history, ({ after, context: { rule, nowMs } }) => {
          if (after.kind !== "half_open") return;
          expect(after.probes.filter(({ untilMs }) => untilMs > nowMs).length).toBeLessThanOrEqual(rule.probes);
        });
      }),
    );
  });

  test("only a successful probe closes it, and only failures open it, for a time within the interval", () => {
    fc.assert(
      fc.property(anyHistory, (history) => {
        walk(history, ({ before, event, after, context }) => {
          if (after.kind === "closed" && before.kind !== "closed") {
            expect(event.kind).toBe("succeeded");
            expect(before).toMatchObject({ kind: "half_open" });
          }
          if (after.kind !== "open" || after === before) return;
          expect(event.kind).toBe("failed");
          const { loMs, hiMs } = openInterval(context.rule, after.openings);
          expect(after.untilMs - context.nowMs).toBeGreaterThanOrEqual(Math.floor(loMs));
          expect(after.untilMs - context.nowMs).toBeLessThanOrEqual(Math.ceil(hiMs));
          expect(hiMs).toBeLessThanOrEqual(context.rule.openMs * OPEN_GROWTH_MAX * 1.5);
        });
      }),
    );
  });

  test("always admits a probe after the longest open time", () => {
    fc.assert(
      fc.property(anyHistory, (history) => {
        walk(history, ({ after, context }) => {
          const longestMs = Math.max(context.rule.openMs * OPEN_GROWTH_MAX * 1.5, context.rule.probeMs) + 1;
          expect(permission(after, { ...context, nowMs: context.nowMs + longestMs })).not.toBe("wait");
        });
      }),
    );
  });
});
