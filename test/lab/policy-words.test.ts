import { expect, test } from "vitest";
import { describePolicy } from "../../src/lab/report/policy-words.ts";

test.each([
  ["fixed:500ms", "everybody comes back after exactly 500 ms"],
  ["bounded:500ms:0.3", "everybody comes back after 350 ms to 650 ms, by chance"],
  ["full:1s:30s", "everybody comes back after up to 2 s, later up to 30 s, by chance"],
  ["capped_exponential:1s:30s:500ms", "everybody comes back after 2 s to 2.5 s, by chance; later after exactly 30 s"],
  ["decorrelated:1s:30s", "everybody comes back after 1 s to 3 s, later 1 s to 30 s, by chance"],
  ["atomic", ""],
])("%s in plain words", (policy, words) => {
  expect(describePolicy(policy)).toBe(words);
});
