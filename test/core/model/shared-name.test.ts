import { expect, it } from "vitest";
import { sharedName } from "../../../src/core/model/lists/shared-name.ts";

it("builds a shared name once", () => {
  let built = 0;
  const nameOf = sharedName((org, state, topic) => {
    built += 1;
    return `${org}/${state}/${topic}`;
  });
  expect([nameOf("a", "b"), nameOf("a", "b", "c"), nameOf("a", "b"), nameOf("a", "b", "c")]).toEqual([
    "a/b/",
    "a/b/c",
    "a/b/",
    "a/b/c",
  ]);
  expect(built).toBe(2);
});

it("distinguishes names whose parts contain the separator", () => {
  const nameOf = sharedName((...parts) => parts.join("|"));
  expect([nameOf("a/b", "c"), nameOf("a", "b/c"), nameOf("__proto__", "toString", "x")]).toEqual([
    "a/b|c|",
    "a|b/c|",
    "__proto__|toString|x",
  ]);
});

it("forgets names rather than keep all that clients choose", () => {
  let built = 0;
  const nameOf = sharedName((org, state) => {
    built += 1;
    return `${org}/${state}`;
  });
  for (let round = 0; round < 2; round++) {
    for (let n = 0; n < 25_000; n++) expect(nameOf(`org${n}`, "x")).toBe(`org${n}/x`);
  }
  expect(built).toBeGreaterThan(25_000);
});
