import { expect, test } from "vitest";
import { POOLS_LIST } from "../../../src/core/model/kill-switch.ts";
import { activeRolloutsOf, PROMOTED, ROLLOUTS, ROLLOUTS_LIST } from "../../../src/core/rollout/rollout.ts";
import { rolloutWith } from "./fixtures.ts";

test.each([
  ["running", true, [activeRolloutsOf("lock_busy")]],
  ["paused", true, [activeRolloutsOf("lock_busy")]],
  ["proved", true, [activeRolloutsOf("lock_busy")]],
  ["promoted", true, [PROMOTED]],
  ["rolled_back", false, []],
  ["ended", false, []],
] as const)("a %s rollout is read with the pools: %j, counted in %j", (state, isRead, counters) => {
  const placement = ROLLOUTS.placement(rolloutWith({ state, startedMs: 7 }));
  const names = isRead ? [ROLLOUTS_LIST, POOLS_LIST] : [ROLLOUTS_LIST];
  expect(placement).toEqual({ lists: names.map((name) => ({ name, score: 7 })), queue: null, counters, dueMs: null });
});
