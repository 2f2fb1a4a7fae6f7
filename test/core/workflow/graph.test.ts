import fc from "fast-check";
import { expect, test } from "vitest";
import { compileWorkflow } from "../../../src/core/workflow/definition/compile.ts";

/** Steps in random order, each depending on some with a lower number. */
const dag = fc
  .array(fc.array(fc.nat(), { maxLength: 4 }), { minLength: 2, maxLength: 40 })
  .map((picks) => picks.map((some, at) => new Set(at === 0 ? [] : some.map((pick) => pick % at))))
  .chain((before) =>
    fc.tuple(fc.constant(before), fc.shuffledSubarray([...before.keys()], { minLength: before.length })),
  );

const id = (at: number) => `s${at}`;

function documentOf(before: readonly ReadonlySet<number>[], written: readonly number[]) {
  const entries = written.map((at) => [id(at), { topic: "demo.echo", depends_on: [...(before[at] ?? [])].map(id) }]);
  return { id: "w", steps: Object.fromEntries(entries) };
}

test("orders every acyclic graph topologically, else as written", () => {
  fc.assert(
    fc.property(dag, ([before, written]) => {
      const compiled = compileWorkflow(documentOf(before, written));
      if (compiled.kind === "bad") throw new Error(compiled.problems.join("\n"));
      const { order, steps } = compiled.plan;
      const placeOf = (at: number) => order.indexOf(id(at));
      expect([...order].sort()).toEqual(before.map((_, at) => id(at)).sort());
      for (const [at, some] of before.entries()) {
        for (const other of some) expect(placeOf(other)).toBeLessThan(placeOf(at));
        const ancestors = reachable(before, at);
        expect(new Set(steps.get(id(at))?.ancestors)).toEqual(new Set([...ancestors].map(id)));
        const dependents = order.filter((other) => before[Number(other.slice(1))]?.has(at));
        expect(steps.get(id(at))?.dependents).toEqual(dependents);
      }
      // A step that was written earlier but is ordered later depends on a step in between.
      for (const [place, name] of order.entries()) {
        const at = Number(name.slice(1));
        const next = order[place + 1];
        if (next === undefined) continue;
        const isEarlier = written.indexOf(Number(next.slice(1))) < written.indexOf(at);
        if (isEarlier) expect(before[Number(next.slice(1))]?.has(at)).toBe(true);
      }
    }),
  );
});

test("reports every back edge as a real cycle", () => {
  fc.assert(
    fc.property(dag, fc.nat(), fc.nat(), ([before, written], from, pick) => {
      const at = from % before.length;
      const ancestors = [...reachable(before, at), at];
      const to = ancestors[pick % ancestors.length] ?? at;
      const closed = before.map((some, index) => (index === to ? new Set([...some, at]) : some));
      const compiled = compileWorkflow(documentOf(closed, written));
      if (compiled.kind === "ok") throw new Error("a cycle was not seen");
      for (const problem of compiled.problems) {
        const cycle = [...problem.matchAll(/`(s\d+)`/g)].map(([, name]) => Number(name?.slice(1)));
        expect(problem).toContain("depends on");
        if (problem.includes("depends on itself;")) expect(closed[cycle[0] ?? -1]?.has(cycle[0] ?? -1)).toBe(true);
        else if (!problem.includes("…")) {
          expect(cycle.at(-1)).toBe(cycle[0]);
          for (const [place, one] of cycle.slice(0, -1).entries()) {
            expect(closed[one]?.has(cycle[place + 1] ?? -1)).toBe(true);
          }
        }
      }
    }),
  );
});

test("accepts 256 steps in a row", () => {
  const before = Array.from({ length: 256 }, (_, at) => new Set(at === 0 ? [] : [at - 1]));
  const written = [...before.keys()].reverse();
  expect(compileWorkflow(documentOf(before, written)).kind).toBe("ok");
});

function reachable(before: readonly ReadonlySet<number>[], from: number): ReadonlySet<number> {
  const found = new Set<number>();
  const open = [...(before[from] ?? [])];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (found.has(at)) continue;
    found.add(at);
    open.push(...(before[at] ?? []));
  }
  return found;
}
