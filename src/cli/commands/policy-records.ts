import { simulateRecorded } from "../../client/recorded.ts";
import type { ExhaustedBudget } from "../../client/schema.ts";
import { DEFAULT_ORG } from "../../core/model/job-id.ts";
import { simulationBudget } from "../../core/policy/evaluate.ts";
import { readPolicyTests } from "../../core/policy/read-tests.ts";
import { type PreparedCase, testPolicy } from "../../core/policy/test-policy.ts";
import { testsView } from "../../gateway/policy/policy-tests.ts";
import { readPolicyRequest } from "../../gateway/routes/policy-request.ts";
import type { Client, Json } from "../client.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, ProgressLine, printJson } from "../io.ts";
import { textTable } from "../table.ts";
import { readText, snapshotIn } from "../up/load-policy.ts";

export interface RecordedOptions {
  readonly json?: boolean;
  readonly policy?: string;
  readonly last?: number;
  readonly limit?: number;
}

/** Lists the recorded decisions that a policy file, or the policy in force, would flip. */
export async function simulateRecords(io: Io, client: Client, options: RecordedOptions): Promise<ExitCode> {
  const { policy: file, last, limit: max = RECORDS_DEFAULT } = options;
  const progress = new ProgressLine(io);
  const totals = await simulateRecorded((body) => client.policy.simulate(body), {
    policy: file === undefined ? undefined : readText(file),
    range: last === undefined ? {} : { last_ms: last },
    max,
    onPage: ({ checked, flipped }) => progress.show(`${checked} checked, ${flipped} would flip`),
  }).finally(() => progress.clear());
  if (options.json) {
    printJson(io, totals);
    return EXIT.ok;
  }
  const rows = totals.groups.map(({ from, to, topic, count, examples }: Json) => [
    decidedBy(from),
    decidedBy(to),
    topic,
    String(count),
    examples.join(" "),
  ]);
  if (rows.length > 0) io.out(textTable(["FROM", "TO", "TOPIC", "COUNT", "EXAMPLES"], rows));
  if (totals.ungrouped > 0) io.out(`and ${totals.ungrouped} in smaller groups\n`);
  io.out(`${totals.flipped} of ${totals.checked} recorded decisions would flip\n`);
  io.out(exhaustedText(totals.limits?.exhausted ?? []));
  if (totals.limits) {
    const { counted_from, approximations } = totals.limits;
    const lines = approximations.map((text: string) => `  ${text}\n`).join("");
    io.err(`limits and budgets are counted from ${counted_from}, approximately:\n${lines}`);
  }
  const without = totals.undecided + totals.bypassed;
  if (without > 0)
    io.err(`${without} jobs have no decision: ${totals.undecided} wait, ${totals.bypassed} were bypassed\n`);
  if (totals.truncated) io.err(`only the newest ${max} jobs were read; --limit reads more\n`);
  return EXIT.ok;
}

function exhaustedText(exhausted: readonly ExhaustedBudget[]): string {
  return exhausted
    .map(({ rule_id, per, count, examples }) => {
      const what = `${count} ${count === 1 ? "job" : "jobs"} would exhaust a budget`;
      return `${what} of rule ${rule_id} per ${per}: ${examples.join(" ")}\n`;
    })
    .join("");
}

const decidedBy = ({ decision, rule_id }: Json): string => `${decision} by ${rule_id ?? "default"}`;

/** Runs test cases against a policy file without a control plane, or against the policy in force. */
export async function testPolicyFile(
  io: Io,
  client: () => Client,
  file: string,
  options: { readonly json?: boolean; readonly policy?: string },
): Promise<ExitCode> {
  const text = readText(file, "tests");
  const answer: Json =
    options.policy === undefined
      ? await client().policy.test({ tests: text })
      : testOffline({ file, text }, options.policy);
  if (options.json) printJson(io, answer);
  else io.out(testsText(file, answer));
  return answer.failed === 0 ? EXIT.ok : EXIT.error;
}

function testOffline({ file, text }: { readonly file: string; readonly text: string }, policy: string): Json {
  const snapshot = snapshotIn(policy);
  const read = readPolicyTests({ name: file, text });
  if (read.kind === "bad") throw invalidTests(read.problems);
  const cases = read.value.map(({ given, ...one }): PreparedCase => {
    const request = readPolicyRequest(given, DEFAULT_ORG, Date.now());
    if (request.kind === "bad")
      throw invalidTests(request.problems.map((problem) => `${file}:${one.line}: ${problem}`));
    return { ...one, request: request.request, isTimeGiven: given.now !== undefined };
  });
  return testsView(snapshot.hash, testPolicy(snapshot, cases, simulationBudget()));
}

function invalidTests(problems: readonly string[]): CliError {
  return new CliError(EXIT.usage, `invalid policy tests:\n  ${problems.join("\n  ")}`, "cordum policy test --help");
}

function testsText(file: string, { passed, failed, cases, snapshot }: Json): string {
  const failures = cases
    .filter((one: Json) => !one.passed)
    .map(({ name, line, failure }: Json) => `${file}:${line}: ${name}\n  ${failure}\n`);
  return `${failures.join("")}${passed} passed, ${failed} failed (snapshot ${snapshot})\n`;
}

const RECORDS_DEFAULT = 100_000;
