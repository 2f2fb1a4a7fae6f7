import { describe, expect, test } from "vitest";
import { compileWorkflow } from "../../../src/core/workflow/definition/compile.ts";

const W = { topic: "demo.echo" };
const IN = (text: string) => `$\{${text}}`;

type Case = readonly [what: string, steps: unknown, ...problems: string[]];

function check(steps: unknown, problems: readonly unknown[]): void {
  expect(compileWorkflow({ id: "w", steps })).toEqual({ kind: "bad", problems });
}

describe("what a step says is checked", () => {
  test.each<Case>([
    ["no steps", {}, "steps: must have at least one step"],
    [
      "a list of steps",
      [W],
      "steps: must be a mapping from ids to steps, such as `{greet: {topic: demo.echo}}`, is a list",
    ],
    ["no step", { a: null }, "steps.a: must be a mapping, such as `{topic: demo.echo}`, is null"],
    ["an id", { "a b": W }, 'steps["a b"]: the id of a step is 1 to 64 letters, digits, `_` or `-`'],
    [
      "a word of `on_error`",
      { continue: W },
      "steps.continue: cannot be the id of a step: `on_error` means something else by it",
    ],
    [
      "a type",
      { a: { type: "worke" } },
      "steps.a.type: must be `worker`, `approval`, `condition`, `switch`, `delay`, `notify`, `transform`, `parallel` or `subworkflow`, not `worke`; did you mean `worker`?",
    ],
    ["no topic", { a: {} }, "steps.a: has no `topic`: where its work is sent"],
    [
      "a key of another type",
      { a: { type: "delay", delay_sec: 1, topic: "x" } },
      "steps.a.topic: goes with the type `worker`, and this step's is `delay`",
    ],
    [
      "the list of a condition",
      { a: { type: "condition", condition: "item", for_each: "1 + 1" } },
      "steps.a.for_each: is of the type `int`; it must be a list",
    ],
    [
      "item in the question of a condition that is asked once",
      { a: { type: "condition", condition: "item > 1" } },
      "steps.a.condition: cannot be read at column 1: unknown variable: item; only what a step with `for_each` does for each item can read it",
    ],
    [
      "item where a switch asks whether it runs at all",
      { a: { type: "switch", switch: "item", cases: { x: [] }, condition: "item > 1", for_each: "[1]" } },
      "steps.a.condition: cannot be read at column 1: unknown variable: item; only what a step with `for_each` does for each item can read it",
    ],
    [
      "item in the condition of a branch, which is asked once",
      {
        a: { type: "parallel", branches: "b", for_each: "[1]" },
        b: { ...W, condition: "item > 1" },
      },
      "steps.b.condition: cannot be read at column 1: unknown variable: item; only what a step with `for_each` does for each item can read it",
    ],
    [
      "item in a branch of a parallel step without a list",
      { a: { type: "parallel", branches: ["b"] }, b: { ...W, input: IN("item") } },
      `steps.b.input: \`${IN("item")}\` cannot be read at column 1: unknown variable: item; only what a step with \`for_each\` does for each item can read it`,
    ],
    [
      "a parallel step with a list and without branches",
      {
        a: { type: "parallel", for_each: "[1]", branches: ["a", 7, "nowhere"] },
        b: { type: "parallel", for_each: "[1]" },
      },
      "steps.a.branches[1]: must be the id of a step, is 7",
      "steps.b: has no `branches`: the steps that it starts",
      "steps.a.branches[2]: there is no step `nowhere`",
      "steps.a: `a` waits for itself; a step must not wait for itself",
      "steps.a.branches[0]: `a` is of the type `parallel`, which cannot be a branch; make it a subworkflow",
    ],
    [
      "max_parallel alone",
      { a: { ...W, max_parallel: 2 } },
      "steps.a.max_parallel: goes with `for_each`, which this step has not",
    ],
    [
      "max_parallel",
      { a: { ...W, for_each: "[1]", max_parallel: 0 } },
      "steps.a.max_parallel: must be a whole number from 1 to 10000, is 0",
    ],
    [
      "failure",
      { a: { ...W, for_each: "[1]", failure: "never" } },
      "steps.a.failure: must be `fail_fast`, `wait_all` or `{tolerate: n}`, is `never`",
    ],
    [
      "failure without a number",
      { a: { ...W, for_each: "[1]", failure: {} } },
      "steps.a.failure: has no `tolerate`: how many items may fail",
    ],
    [
      "for_each of a text",
      { a: { ...W, for_each: "'abc'" } },
      "steps.a.for_each: is of the type `string`; it must be a list",
    ],
    [
      "a condition of a number",
      { a: { ...W, condition: "1 + 1" } },
      "steps.a.condition: is of the type `int`; it must be true or false",
    ],
    ["no condition", { a: { type: "condition" } }, "steps.a: has no `condition`: the question that it asks"],
    [
      "item outside of for_each",
      { a: { ...W, input: IN("item") } },
      `steps.a.input: \`${IN("item")}\` cannot be read at column 1: unknown variable: item; only what a step with \`for_each\` does for each item can read it`,
    ],
    [
      "a timeout",
      { a: { ...W, timeout_sec: 0 } },
      "steps.a.timeout_sec: must be a number of seconds above 0 and at most 2592000, is 0",
    ],
    [
      "retry",
      { a: { ...W, retry: { max_retries: 101, multiplier: 0, jitter: "some", tries: 1 } } },
      "steps.a.retry.tries: unknown key; known here: `max_retries`, `initial_backoff_sec`, `max_backoff_sec`, `multiplier`, `jitter`",
      "steps.a.retry.max_retries: must be a whole number from 0 to 100, is 101",
      "steps.a.retry.multiplier: must be a number from 1 to 100, is 0",
      "steps.a.retry.jitter: must be `full`, `equal` or `none`, not `some`",
    ],
    [
      "backoff",
      { a: { ...W, retry: { max_retries: 1, initial_backoff_sec: 5, max_backoff_sec: 1 } } },
      "steps.a.retry.max_backoff_sec: must not be less than `initial_backoff_sec`",
    ],
    [
      "labels",
      { a: { ...W, labels: { run_id: "x", env: IN("input") } } },
      "steps.a.labels.run_id: is written by the control plane alone; leave it out",
      "steps.a.labels.env: has `${` in it, and labels are not templates; put it into `input`",
    ],
    [
      "priority",
      { a: { ...W, priority: "high" } },
      "steps.a.priority: must be `interactive`, `batch` or `critical`, not `high`",
    ],
    [
      "output_path",
      { a: { ...W, output_path: "a..b" } },
      "steps.a.output_path: must be 1 to 8 names joined by dots, such as `order.id`, is `a..b`",
    ],
    ["no delay", { a: { type: "delay" } }, "steps.a: needs `delay_sec` and `delay_until`: give exactly one"],
    [
      "two delays",
      { a: { type: "delay", delay_sec: 1, delay_until: "2030-01-01T00:00:00Z" } },
      "steps.a: has both of `delay_sec` and `delay_until`: give exactly one",
    ],
    [
      "a delay",
      { a: { type: "delay", delay_sec: -1 } },
      `steps.a.delay_sec: must be a number of seconds from 0 to 2592000, or an expression in \`${IN("…")}\`, is -1`,
    ],
    [
      "a time",
      { a: { type: "delay", delay_until: "tomorrow" } },
      `steps.a.delay_until: must be a time such as \`2030-01-31T08:00:00Z\`, or an expression in \`${IN("…")}\`, is \`tomorrow\``,
    ],
    [
      "a day that is none",
      { a: { type: "delay", delay_until: "2030-02-31T25:00:00Z" } },
      `steps.a.delay_until: must be a time such as \`2030-01-31T08:00:00Z\`, or an expression in \`${IN("…")}\`, is \`2030-02-31T25:00:00Z\``,
    ],
    ["no message", { a: { type: "notify" } }, "steps.a: has no `message`: what it says"],
    [
      "a level",
      { a: { type: "notify", message: "m", level: "warning" } },
      "steps.a.level: must be `info`, `warn` or `error`, not `warning`",
    ],
    ["nothing to make", { a: { type: "transform" } }, "steps.a: has no `input`: what it makes"],
    ["no cases", { a: { type: "switch", switch: "input" } }, "steps.a: has no `cases`: the steps for each value"],
    [
      "a case called default",
      { a: { type: "switch", switch: "input", cases: { default: [], x: [] } } },
      "steps.a.cases.default: write `default` beside `cases`, not in it",
    ],
    ["no branches", { a: { type: "parallel", branches: [] } }, "steps.a.branches: must name at least one step"],
    [
      "n without n_of_m",
      { a: { type: "parallel", branches: ["b"], n: 1 }, b: W },
      "steps.a.n: goes with `join: n_of_m`, and this step's is `all`",
    ],
    [
      "n of fewer",
      { a: { type: "parallel", branches: ["b"], join: "n_of_m", n: 2 }, b: W },
      "steps.a.n: must be a whole number from 1 to 1, is 2",
    ],
    ["no workflow", { a: { type: "subworkflow" } }, "steps.a: has no `workflow`: the id of the workflow that it runs"],
    [
      "matches",
      { a: { ...W, condition: "input.s.matches('a')" } },
      "steps.a.condition: uses `matches`, whose time has no bound; write `re2(text, pattern)`, which finds the pattern anywhere in the text",
    ],
    [
      "an open expression",
      { a: { ...W, input: { b: ["${input"] } } },
      "steps.a.input.b[0]: has a `${` without its `}`; write `$${` where none is meant",
    ],
    [
      "too many steps",
      Object.fromEntries(Array.from({ length: 257 }, (_, at) => [`s${at}`, W])),
      "steps: must be at most 256, are 257; move some to a subworkflow",
    ],
  ])("%s", (_what, steps, ...problems) => check(steps, problems));
});
