import { describe, expect, test } from "vitest";
import { compileWorkflow } from "../../../src/core/workflow/definition/compile.ts";

const W = { topic: "demo.echo" };
const IN = (text: string) => `$\{${text}}`;

type Case = readonly [what: string, steps: unknown, ...problems: string[]];

function check(steps: unknown, problems: readonly unknown[]): void {
  expect(compileWorkflow({ id: "w", steps })).toEqual({ kind: "bad", problems });
}

describe("checks a step", () => {
  test.each<Case>([
    ["no steps", {}, "steps: must have at least one step"],
    [
      "a list of steps",
      [W],
      "steps: must be a mapping from step ids to steps, such as `{greet: {topic: demo.echo}}`, got a list",
    ],
    ["no step", { a: null }, "steps.a: must be a mapping, such as `{topic: demo.echo}`, got null"],
    ["an id", { "a b": W }, 'steps["a b"]: a step id is 1 to 64 letters, digits, `_` or `-`'],
    ["a word of `on_error`", { continue: W }, "steps.continue: is reserved by `on_error`; choose another step id"],
    [
      "a type",
      { a: { type: "worke" } },
      "steps.a.type: must be `worker`, `approval`, `condition`, `switch`, `delay`, `notify`, `transform`, `parallel`, `subworkflow`, `wait` or `loop`, not `worke`; did you mean `worker`?",
    ],
    ["no topic", { a: {} }, "steps.a: missing `topic`: the topic its job is sent to"],
    [
      "a key of another type",
      { a: { type: "delay", delay_sec: 1, topic: "x" } },
      "steps.a.topic: is only allowed for type `worker`, not `delay`",
    ],
    [
      "the list of a condition",
      { a: { type: "condition", condition: "item", for_each: "1 + 1" } },
      "steps.a.for_each: has type `int`, but must be a list",
    ],
    [
      "item in the question of a condition that is asked once",
      { a: { type: "condition", condition: "item > 1" } },
      "steps.a.condition: is invalid at column 1: unknown variable: item; `item` and `index` exist only in steps with `for_each`",
    ],
    [
      "item where a switch asks whether it runs at all",
      { a: { type: "switch", switch: "item", cases: { x: [] }, condition: "item > 1", for_each: "[1]" } },
      "steps.a.condition: is invalid at column 1: unknown variable: item; `item` and `index` exist only in steps with `for_each`",
    ],
    [
      "item in the condition of a branch, which is asked once",
      {
        a: { type: "parallel", branches: "b", for_each: "[1]" },
        b: { ...W, condition: "item > 1" },
      },
      "steps.b.condition: is invalid at column 1: unknown variable: item; `item` and `index` exist only in steps with `for_each`",
    ],
    [
      "item in a branch of a parallel step without a list",
      { a: { type: "parallel", branches: ["b"] }, b: { ...W, input: IN("item") } },
      `steps.b.input: \`${IN("item")}\` is invalid at column 1: unknown variable: item; \`item\` and \`index\` exist only in steps with \`for_each\``,
    ],
    [
      "a parallel step with a list and without branches",
      {
        a: { type: "parallel", for_each: "[1]", branches: ["a", 7, "nowhere"] },
        b: { type: "parallel", for_each: "[1]" },
      },
      "steps.a.branches[1]: must be a step id, got 7",
      "steps.b: missing `branches`: the steps to start",
      "steps.a.branches[2]: unknown step `nowhere`",
      "steps.a: `a` depends on itself; remove one of these dependencies",
      "steps.a.branches[0]: `a` has type `parallel`, which cannot be a branch; use a subworkflow",
    ],
    ["max_parallel alone", { a: { ...W, max_parallel: 2 } }, "steps.a.max_parallel: requires `for_each`"],
    [
      "max_parallel",
      { a: { ...W, for_each: "[1]", max_parallel: 0 } },
      "steps.a.max_parallel: must be an integer from 1 to 10000, got 0",
    ],
    [
      "failure",
      { a: { ...W, for_each: "[1]", failure: "never" } },
      "steps.a.failure: must be `fail_fast`, `wait_all` or `{tolerate: n}`, got `never`",
    ],
    [
      "failure without a number",
      { a: { ...W, for_each: "[1]", failure: {} } },
      "steps.a.failure: missing `tolerate`: how many items may fail",
    ],
    [
      "for_each of a string",
      { a: { ...W, for_each: "'abc'" } },
      "steps.a.for_each: has type `string`, but must be a list",
    ],
    [
      "a condition of a number",
      { a: { ...W, condition: "1 + 1" } },
      "steps.a.condition: has type `int`, but must be a boolean",
    ],
    ["no condition", { a: { type: "condition" } }, "steps.a: missing `condition`: the expression to evaluate"],
    [
      "item outside of for_each",
      { a: { ...W, input: IN("item") } },
      `steps.a.input: \`${IN("item")}\` is invalid at column 1: unknown variable: item; \`item\` and \`index\` exist only in steps with \`for_each\``,
    ],
    [
      "a timeout",
      { a: { ...W, timeout_sec: 0 } },
      "steps.a.timeout_sec: must be a number of seconds above 0 and at most 2592000, got 0",
    ],
    [
      "retry",
      { a: { ...W, retry: { max_retries: 101, multiplier: 0, jitter: "some", tries: 1 } } },
      "steps.a.retry.tries: unknown key; known here: `max_retries`, `initial_backoff_sec`, `max_backoff_sec`, `multiplier`, `jitter`",
      "steps.a.retry.max_retries: must be an integer from 0 to 100, got 101",
      "steps.a.retry.multiplier: must be a number from 1 to 100, got 0",
      "steps.a.retry.jitter: must be `full`, `equal` or `none`, not `some`",
    ],
    [
      "jitter of other types",
      {
        a: { ...W, retry: { max_retries: 1, jitter: { full: 1 } } },
        b: { ...W, retry: { max_retries: 1, jitter: 5 } },
      },
      "steps.a.retry.jitter: must be `full`, `equal` or `none`, not a mapping",
      "steps.b.retry.jitter: must be `full`, `equal` or `none`, not `5`",
    ],
    [
      "backoff",
      { a: { ...W, retry: { max_retries: 1, initial_backoff_sec: 5, max_backoff_sec: 1 } } },
      "steps.a.retry.max_backoff_sec: must not be less than `initial_backoff_sec`",
    ],
    [
      "labels",
      { a: { ...W, labels: { run_id: "x", env: IN("input") } } },
      "steps.a.labels.run_id: is reserved for the control plane; remove it",
      "steps.a.labels.env: contains `${`, but labels are not templates; use `input`",
    ],
    [
      "priority",
      { a: { ...W, priority: "high" } },
      "steps.a.priority: must be `interactive`, `batch` or `critical`, not `high`",
    ],
    [
      "output_path",
      { a: { ...W, output_path: "a..b" } },
      "steps.a.output_path: must be 1 to 8 names joined by dots, such as `order.id`, got `a..b`",
    ],
    ["no delay", { a: { type: "delay" } }, "steps.a: needs exactly one of `delay_sec` and `delay_until`"],
    [
      "two delays",
      { a: { type: "delay", delay_sec: 1, delay_until: "2030-01-01T00:00:00Z" } },
      "steps.a: needs exactly one of `delay_sec` and `delay_until`",
    ],
    [
      "a delay",
      { a: { type: "delay", delay_sec: -1 } },
      `steps.a.delay_sec: must be a number of seconds from 0 to 2592000, or an expression in \`${IN("…")}\`, got -1`,
    ],
    [
      "a time",
      { a: { type: "delay", delay_until: "tomorrow" } },
      `steps.a.delay_until: must be a time such as \`2030-01-31T08:00:00Z\`, or an expression in \`${IN("…")}\`, got \`tomorrow\``,
    ],
    [
      "a day that is none",
      { a: { type: "delay", delay_until: "2030-02-31T25:00:00Z" } },
      `steps.a.delay_until: must be a time such as \`2030-01-31T08:00:00Z\`, or an expression in \`${IN("…")}\`, got \`2030-02-31T25:00:00Z\``,
    ],
    ["no message", { a: { type: "notify" } }, "steps.a: missing `message`: the text to send"],
    [
      "a level",
      { a: { type: "notify", message: "m", level: "warning" } },
      "steps.a.level: must be `info`, `warn` or `error`, not `warning`",
    ],
    ["nothing to make", { a: { type: "transform" } }, "steps.a: missing `input`: the value to compute"],
    ["no cases", { a: { type: "switch", switch: "input" } }, "steps.a: missing `cases`: the steps for each value"],
    [
      "a case called default",
      { a: { type: "switch", switch: "input", cases: { default: [], x: [] } } },
      "steps.a.cases.default: belongs next to `cases`, not inside",
    ],
    ["no branches", { a: { type: "parallel", branches: [] } }, "steps.a.branches: must name at least one step"],
    [
      "n without n_of_m",
      { a: { type: "parallel", branches: ["b"], n: 1 }, b: W },
      "steps.a.n: requires `join: n_of_m`, but `join` is `all`",
    ],
    [
      "n of fewer",
      { a: { type: "parallel", branches: ["b"], join: "n_of_m", n: 2 }, b: W },
      "steps.a.n: must be an integer from 1 to 1, got 2",
    ],
    [
      "a wait without its keys",
      { a: { type: "wait" } },
      "steps.a: missing `timeout_sec`: how long to wait for the event",
      "steps.a: missing `event`: the name of the event to wait for",
    ],
    [
      "a wait with wrong keys",
      { a: { type: "wait", event: "a b", correlate: "steps.b.output", timeout_sec: 1, topic: "x" }, b: W },
      "steps.a.topic: is only allowed for type `worker`, not `wait`",
      "steps.a.event: must be 1 to 64 letters, digits or any of `_ . : / -`, got `a b`",
      "steps.a.correlate: reads `steps.b`, which does not precede this step; add it to `depends_on`",
    ],
    [
      "a repeated wait",
      { a: { type: "wait", event: "e", timeout_sec: 1, for_each: "input.items" } },
      "steps.a.for_each: is only allowed for type `worker`, `approval`, `condition`, `switch`, `delay`, `notify`, `transform`, `parallel`, `subworkflow`, not `wait`",
    ],
    [
      "a wait as a repeated branch",
      {
        a: { type: "parallel", branches: ["b"], for_each: "input.items" },
        b: { type: "wait", event: "e", timeout_sec: 1 },
      },
      "steps.a.branches[0]: `b` has type `wait`, which cannot be repeated by `for_each`; use a subworkflow",
    ],
    ["no workflow", { a: { type: "subworkflow" } }, "steps.a: missing `workflow`: the id of the workflow to run"],
    [
      "matches",
      { a: { ...W, condition: "input.s.matches('a')" } },
      "steps.a.condition: uses `matches`, which is not supported; use `re2(text, pattern)`, which searches anywhere in the text",
    ],
    [
      "an open expression",
      { a: { ...W, input: { b: ["${input"] } } },
      "steps.a.input.b[0]: has an unclosed `${`; write `$${` for a literal one",
    ],
    [
      "too many steps",
      Object.fromEntries(Array.from({ length: 257 }, (_, at) => [`s${at}`, W])),
      "steps: has 257 steps, at most 256 allowed; move some to a subworkflow",
    ],
  ])("%s", (_what, steps, ...problems) => check(steps, problems));
});
