import { expect, test } from "vitest";
import { barData, lineData, peakOf } from "../../../dashboard/src/pages/lab/chart-data.ts";
import { addressOf, commandOf, draftFrom, requestOf } from "../../../dashboard/src/pages/lab/params.ts";
import { EXPERIMENT_VIEWS } from "../../../src/lab/requests.ts";

const [one] = EXPERIMENT_VIEWS;
if (one === undefined) throw new Error("no experiments");

test("the address has what differs from the defaults, and gives the same request", () => {
  const search = "contenders=30&policies=baseline,full:1s:30s&holdMs=5";
  const draft = draftFrom(one.params, new URLSearchParams(search));
  const changes = Object.entries(addressOf(one.params, draft)).filter(([, value]) => value !== null);
  expect(Object.fromEntries(changes)).toEqual({ contenders: "30", policies: "baseline,full:1s:30s" });
  expect(requestOf(one.params, draft)).toEqual({ contenders: "30", policies: ["baseline", "full:1s:30s"] });
  const policies = ["--policy", "baseline", "--policy", "full:1s:30s"];
  expect(commandOf(one, draft).toSorted()).toEqual(["lab lock-busy", "--contenders", "30", ...policies].toSorted());
});

test("an empty field has its default", () => {
  const draft = { ...draftFrom(one.params, new URLSearchParams()), holdMs: " ", policies: "\n" };
  expect(requestOf(one.params, draft)).toEqual({});
});

test("lines of different x values share one axis", () => {
  const line = (points: number[][]) => ({ name: "", note: "", description: "", points });
  const series = [
    line([
      [1, 10],
      [3, 30],
    ]),
    line([[2, 20]]),
  ];
  expect(lineData({ series })).toEqual({
    x: [1, 2, 3],
    values: [
      [10, null, 30],
      [null, 20, null],
    ],
  });
});

test("bars fill the axis, with zeros between them", () => {
  const series = [{ name: "", note: "", description: "", points: [[100, 7]] }];
  const data = barData({ series, bin: 50, until: 190 });
  expect(data).toEqual({ x: [0, 50, 100, 150], values: [[0, 0, 7, 0]] });
  expect(peakOf(data)).toBe(7);
});
