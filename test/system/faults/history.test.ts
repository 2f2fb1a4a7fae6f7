import { expect, test } from "vitest";
import { History } from "./history.ts";

const done = (result: unknown) => ({ state: "SUCCEEDED", result });

function correct(): History {
  const history = new History();
  history.acknowledged("k1", "j1");
  history.acknowledged("k1", "j1");
  history.executed("j1", { n: 1 });
  history.executed("j1", { n: 1 });
  history.read("j1", { state: "RUNNING", result: null });
  history.read("j1", done({ n: 1 }));
  history.read("j1", done({ n: 1 }));
  return history;
}

test("accepts replies, executions and reads that repeat", () => {
  expect(correct().open).toEqual([]);
  expect(correct().check()).toEqual({ acknowledged: 1, executions: 2, lost: [], duplicated: [], silent: [] });
});

test.each<{ about: string; break: (history: History) => void; found: object }>([
  { about: "an unknown job", break: (history) => history.read("j1", null), found: { lost: 1, duplicated: 1 } },
  {
    about: "a job that never ends",
    break: (history) => history.acknowledged("k2", "j2"),
    found: { lost: 1 },
  },
  {
    about: "a job that failed",
    break: (history) => {
      history.acknowledged("k2", "j2");
      history.read("j2", { state: "TIMEOUT", result: null });
    },
    found: { lost: 1 },
  },
  {
    about: "a second job for one key",
    break: (history) => {
      history.acknowledged("k1", "j2");
      history.executed("j2", 1);
      history.read("j2", done(1));
    },
    found: { duplicated: 1 },
  },
  {
    about: "a second end",
    break: (history) => {
      history.executed("j1", { n: 2 });
      history.read("j1", done({ n: 2 }));
    },
    found: { duplicated: 1 },
  },
  {
    about: "a success without an execution",
    break: (history) => {
      history.acknowledged("k2", "j2");
      history.read("j2", done(null));
    },
    found: { silent: 1 },
  },
  {
    about: "a result that no execution returned",
    break: (history) => {
      history.acknowledged("k2", "j2");
      history.executed("j2", { n: 2 });
      history.read("j2", done({ n: 3 }));
    },
    found: { silent: 1 },
  },
  { about: "one job for two keys", break: (history) => history.acknowledged("k2", "j1"), found: { silent: 1 } },
  { about: "damage without a report", break: (history) => history.undetected("flip"), found: { silent: 1 } },
])("detects $about", ({ break: breakIt, found }) => {
  const history = correct();
  breakIt(history);
  const { lost, duplicated, silent } = history.check();
  const counts = { lost: lost.length, duplicated: duplicated.length, silent: silent.length };
  expect(counts).toEqual({ lost: 0, duplicated: 0, silent: 0, ...found });
});
