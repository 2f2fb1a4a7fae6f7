import { expect, test } from "vitest";
import { isFinal, JOB_MOVES, JOB_STATES, REDRIVABLE } from "../../src/core/model/job.ts";
import { COMPENSABLE, isRunFinal, REJOINABLE, RUN_MOVES, RUN_STATES } from "../../src/core/model/run.ts";

/** The diagrams are generated from the tables of legal transitions; `npx vitest run test/docs -u` rewrites the file. */
test("docs/states.md matches the tables of legal transitions", async () => {
  const arrows = JOB_STATES.flatMap((from) => JOB_MOVES[from].map((to) => `  ${from} --> ${to}`));
  const redrives = REDRIVABLE.map((from) => `  ${from} --> PENDING: redriven by an operator`);
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
    ...redrives,
    ...ends,
    "```",
    "",
    "| state | next states | waits for; what moves it on otherwise |",
    "|---|---|---|",
    ...rows,
    "",
    ...runLines(),
    "",
  ].join("\n");
  await expect(text).toMatchFileSnapshot("../../docs/states.md");
});

function runLines(): readonly string[] {
  return [
    "# The states of a run",
    "",
    "Generated from `RUN_MOVES` in `src/core/model/run.ts`. Their meaning, and the states of a step: [workflows.md](workflows.md).",
    "",
    "```mermaid",
    "stateDiagram-v2",
    "  [*] --> RUNNING",
    ...RUN_STATES.flatMap((from) => RUN_MOVES[from].map((to) => `  ${from} --> ${to}`)),
    ...REJOINABLE.map((from) => `  ${from} --> RUNNING: a step's dead letter is redriven`),
    ...COMPENSABLE.map((from) => `  ${from} --> ENDING: a compensation's dead letter is redriven`),
    ...RUN_STATES.filter(isRunFinal).map((state) => `  ${state} --> [*]`),
    "```",
  ];
}

const WAITS_FOR: Readonly<Record<(typeof JOB_STATES)[number], string>> = {
  PENDING:
    "the safety decision; a step: its delay, or a slot for its sub-run. Maintenance retries at the job's due time",
  APPROVAL_REQUIRED: "a human decision; when the approval expires the job ends as TIMEOUT with a dead letter",
  SCHEDULED: "room in its topic's window, round robin between orgs; maintenance drains backlogs that were not drained",
  DISPATCHED: "a result; at its deadline the attempt counts as lost",
  RUNNING: "a result; progress and extensions from the worker move the deadline of the attempt",
  RETRYING: "its next attempt, at the time set by the policy of its retry class or by the worker",
  SUCCEEDED: "the end of its retention",
  FAILED: "the end of its retention; a dead letter was written in the same commit",
  CANCELLED: "the end of its retention",
  TIMEOUT: "the end of its retention; a dead letter was written in the same commit",
  DENIED: "the end of its retention",
};
