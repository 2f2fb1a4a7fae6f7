import { expect, test } from "vitest";
import { isFinal, JOB_MOVES, JOB_STATES, REDRIVABLE } from "../../src/core/model/job.ts";
import { isRunFinal, REJOINABLE, RUN_MOVES, RUN_STATES } from "../../src/core/model/run.ts";

/** The diagrams are made from the tables of legal moves; `npx vitest run test/docs -u` writes it anew. */
test("docs/states.md is what the tables of legal moves say", async () => {
  const arrows = JOB_STATES.flatMap((from) => JOB_MOVES[from].map((to) => `  ${from} --> ${to}`));
  const revivals = REDRIVABLE.map((from) => `  ${from} --> PENDING: revived by an operator`);
  const ends = JOB_STATES.filter(isFinal).map((state) => `  ${state} --> [*]`);
  const rows = JOB_STATES.map(
    (state) => `| ${state} | ${isFinal(state) ? "final" : JOB_MOVES[state].join(", ")} | ${WAITS_FOR[state]} |`,
  );
  const text = [
    "# The states of a job",
    "",
    "Generated from `JOB_MOVES` in `src/core/model/job.ts` by `npx vitest run test/docs -u`; a test fails when the two differ.",
    "",
    "```mermaid",
    "stateDiagram-v2",
    "  [*] --> PENDING",
    ...arrows,
    ...revivals,
    ...ends,
    "```",
    "",
    "| state | may become | waits for, and who looks at it when nobody comes |",
    "|---|---|---|",
    ...rows,
    "",
    ...runLines(),
    "",
  ].join("\n");
  await expect(text).toMatchFileSnapshot("../../docs/states.md");
});

/** Of a run, from `RUN_MOVES`. */
function runLines(): readonly string[] {
  return [
    "# The states of a run",
    "",
    "Likewise from `RUN_MOVES` in `src/core/model/run.ts`. What each means, and the states of a step: [workflows.md](workflows.md).",
    "",
    "```mermaid",
    "stateDiagram-v2",
    "  [*] --> RUNNING",
    ...RUN_STATES.flatMap((from) => RUN_MOVES[from].map((to) => `  ${from} --> ${to}`)),
    ...REJOINABLE.map((from) => `  ${from} --> RUNNING: a step's dead letter was tried again`),
    ...RUN_STATES.filter(isRunFinal).map((state) => `  ${state} --> [*]`),
    "```",
  ];
}

const WAITS_FOR: Readonly<Record<(typeof JOB_STATES)[number], string>> = {
  PENDING:
    "the safety kernel's verdict; a step: its delay, or a slot for its run. The sweeper asks again at the time that stands on the job",
  APPROVAL_REQUIRED: "a human's decision; when the approval expires it ends as TIMEOUT, with a dead letter",
  SCHEDULED: "room in its topic's window, in turn between the orgs; the sweeper drains what nobody drained",
  DISPATCHED: "a result; at the attempt's deadline it counts as lost",
  RUNNING: "a result; each sign of life from the worker moves the attempt's deadline on",
  RETRYING: "the time of its next attempt, set by the policy of its class or by the worker",
  SUCCEEDED: "its retention to end",
  FAILED: "its retention to end; a dead letter was written in the same commit",
  CANCELLED: "its retention to end",
  TIMEOUT: "its retention to end; a dead letter was written in the same commit",
  DENIED: "its retention to end",
};
