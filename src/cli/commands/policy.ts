import { DEFAULT_ORG } from "../../core/model/job-id.ts";
import type { PolicyRequest } from "../../core/policy/decision.ts";
import { diff } from "../../core/policy/diff.ts";
import { simulate, simulationBudget } from "../../core/policy/evaluate.ts";
import { explain } from "../../core/policy/explain.ts";
import { formatDuration } from "../../core/retry/duration.ts";
import { type PolicyRequestBody, readPolicyRequest } from "../../gateway/routes/policy-request.ts";
import { diffView, explanationView, simulationView } from "../../gateway/views/policy-views.ts";
import type { Client, Json } from "../client.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { textTable } from "../table.ts";
import { readText, snapshotIn } from "../up/load-policy.ts";

export interface QuestionOptions {
  readonly json?: boolean;
  readonly policy?: string;
  readonly tenant?: string;
  readonly priority?: string;
  readonly capability?: string;
  readonly actor?: string;
  readonly actorType?: string;
  readonly pack?: string;
  readonly label: Readonly<Record<string, string>>;
  readonly riskTag: readonly string[];
  readonly requires: readonly string[];
  readonly mcp: Readonly<Record<string, string>>;
  readonly caller: Readonly<Record<string, string>>;
  readonly at?: string;
}

/** Validates a file without a control plane. */
export function checkPolicy(io: Io, file: string, json: boolean): ExitCode {
  const snapshot = snapshotIn(file);
  const { version, defaultDecision, rules } = snapshot.document;
  const fields = { version, snapshot: snapshot.hash, rules: rules.length, default_decision: defaultDecision };
  if (json) printJson(io, { ok: true, ...fields });
  else io.out(`${file} is valid: ${rules.length} rules, default ${defaultDecision}; snapshot ${snapshot.hash}\n`);
  return EXIT.ok;
}

export async function explainPolicy(
  io: Io,
  client: () => Client,
  topic: string,
  input: string | undefined,
  options: QuestionOptions,
): Promise<ExitCode> {
  const question = questionFrom(topic, input === undefined ? undefined : readJson(io, input), options);
  const answer: Json =
    options.policy === undefined
      ? await client().policy.explain(question)
      : explanationView(explain(snapshotIn(options.policy), requestFrom(question, "explain")), null, () => true);
  if (options.json) printJson(io, answer);
  else io.out(explanationText(answer));
  return EXIT.ok;
}

export async function simulatePolicy(
  io: Io,
  client: () => Client,
  file: string,
  options: { readonly json?: boolean; readonly policy?: string; readonly offline?: boolean },
): Promise<ExitCode> {
  const requests = questionsIn(io, file);
  const { policy } = options;
  let answer: Json;
  if (!options.offline) {
    const text = policy === undefined ? {} : { policy: readText(policy) };
    answer = await client().policy.simulate({ ...text, requests });
  } else if (policy === undefined) {
    throw new CliError(EXIT.usage, "--offline requires --policy", "cordum policy simulate --help");
  } else {
    const policyRequests = requests.map((question) => requestFrom(question, "simulate"));
    answer = simulationView(simulate(snapshotIn(policy), policyRequests, simulationBudget()), null, () => true);
  }
  if (options.json) printJson(io, answer);
  else io.out(simulationText(answer, requests));
  return EXIT.ok;
}

export async function diffPolicy(
  io: Io,
  client: () => Client,
  files: readonly [string, string | undefined],
  json: boolean,
): Promise<ExitCode> {
  const [file, other] = files;
  const answer: Json =
    other === undefined
      ? await client().policy.diff({ policy: readText(file) })
      : diffView(diff(snapshotIn(file), snapshotIn(other)));
  if (json) printJson(io, answer);
  else io.out(diffText(answer));
  return EXIT.ok;
}

export async function publishPolicyFile(
  io: Io,
  client: Client,
  file: string,
  options: {
    readonly json?: boolean;
    readonly name?: string;
    readonly note?: string;
    readonly requireTests?: string;
  },
): Promise<ExitCode> {
  const { name = file, note, requireTests } = options;
  const body = {
    policy: readText(file),
    name,
    ...(note === undefined ? {} : { note }),
    ...(requireTests === undefined ? {} : { tests: readText(requireTests, "tests") }),
  };
  return printChange(io, await client.policy.publish(body), options.json === true);
}

export async function rollbackPolicyTo(
  io: Io,
  client: Client,
  to: string | undefined,
  json: boolean,
): Promise<ExitCode> {
  return printChange(io, await client.policy.rollback(to === undefined ? {} : { to }), json);
}

export async function listPolicies(
  io: Io,
  client: Client,
  options: { readonly json?: boolean; readonly limit?: number; readonly cursor?: string },
): Promise<ExitCode> {
  const { limit, cursor } = options;
  const page = await client.request("GET /policy/snapshots", { query: { limit, cursor } });
  if (options.json) {
    printJson(io, page);
    return EXIT.ok;
  }
  const rows = page.items.map((one: Json) => [
    one.in_force ? "*" : "",
    one.snapshot,
    one.version ?? "–",
    String(one.rules),
    one.at,
    one.by_name ?? one.by,
    one.note ?? one.name,
  ]);
  io.out(textTable(["", "SNAPSHOT", "VERSION", "RULES", "PUBLISHED", "BY", "NOTE"], rows));
  if (page.next_cursor !== null) io.err(`next page: ${io.command} policy list --cursor ${page.next_cursor}\n`);
  return EXIT.ok;
}

function questionFrom(topic: string, input: unknown, options: QuestionOptions): PolicyRequestBody {
  const given = {
    tenant_id: options.tenant,
    priority: options.priority,
    capability: options.capability,
    actor_id: options.actor,
    actor_type: options.actorType,
    pack_id: options.pack,
    now: options.at,
    input,
  };
  return {
    topic,
    labels: { ...options.label },
    risk_tags: [...options.riskTag],
    requires: [...options.requires],
    ...(Object.keys(options.mcp).length === 0 ? {} : { mcp: { ...options.mcp } }),
    ...(Object.keys(options.caller).length === 0 ? {} : { caller: { ...options.caller } }),
    ...(Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as object),
  };
}

function requestFrom(question: PolicyRequestBody, command: "explain" | "simulate"): PolicyRequest {
  const read = readPolicyRequest(question, DEFAULT_ORG, Date.now());
  if (read.kind === "ok") return read.request;
  throw new CliError(EXIT.usage, read.problems.join("; "), `cordum policy ${command} --help`);
}

function readJson(io: Io, text: string): unknown {
  try {
    return JSON.parse(text === "-" ? io.readStdin() : text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CliError(EXIT.usage, `input is not valid JSON: ${why}`, "cordum policy explain --help");
  }
}

function questionsIn(io: Io, file: string): PolicyRequestBody[] {
  const text = file === "-" ? io.readStdin() : readText(file, "requests");
  try {
    const whole = text.trim();
    const lines = whole.split("\n").filter((line) => line.trim() !== "");
    return whole.startsWith("[") ? JSON.parse(whole) : lines.map((line) => JSON.parse(line));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const message = `requests in \`${file}\` must be a JSON array or one JSON object per line: ${why}`;
    throw new CliError(EXIT.usage, message, "cordum policy simulate --help");
  }
}

function printChange(io: Io, answer: Json, json: boolean): ExitCode {
  if (json) printJson(io, answer);
  else if (answer.changed)
    io.out(`${answer.snapshot} is in force; previous: ${answer.previous ?? "the built-in policy"}\n`);
  else io.out(`${answer.snapshot} is already in force\n`);
  return EXIT.ok;
}

function explanationText(answer: Json): string {
  const rule = answer.rule_id === null ? "default decision" : `rule ${answer.rule_id}`;
  const tried = answer.tried.flatMap(({ rule_id, mismatches }: Json) => [
    `  rule ${rule_id} did not match:\n`,
    ...mismatches.map(({ part, text }: Json) => `    ${part}: ${text}\n`),
  ]);
  const shadow = (answer.shadow ?? []).map(
    ({ rule_id, decision, fault }: Json) =>
      `  shadow rule ${rule_id} would decide ${decision}${fault === undefined ? "" : ` (its condition failed: ${fault})`}\n`,
  );
  const at = answer.time_dependent ? `evaluated at ${answer.evaluated_at}\n` : "";
  const limits = (answer.limits ?? []).map(
    ({ rule_id, kind, used, max, within_ms, by }: Json) =>
      `  rule ${rule_id}: ${kind}${used === undefined ? "" : ` ${used} of`} ${max} in ${formatDuration(within_ms)} by ${by}\n`,
  );
  const more = answer.omitted > 0 ? `  ${answer.omitted} more rules did not match\n` : "";
  return `${answer.decision} by ${rule}: ${answer.reason}\nsnapshot ${answer.snapshot}\n${at}${shadow.join("")}${tried.join("")}${more}${limits.join("")}`;
}

function simulationText(answer: Json, requests: readonly PolicyRequestBody[]): string {
  const hasBefore = answer.changed !== undefined;
  const rows = answer.decisions.map((one: Json, at: number) => [
    requests[at]?.topic ?? "",
    one.decision,
    ...(hasBefore ? [one.in_force === one.decision ? "" : one.in_force] : []),
    one.rule_id ?? "default",
    one.reason,
  ]);
  const head = ["TOPIC", "DECISION", ...(hasBefore ? ["IN FORCE"] : []), "RULE", "REASON"];
  return textTable(head, rows) + (hasBefore ? `${answer.changed} of ${rows.length} decisions would change\n` : "");
}

function diffText({ version, default_decision: effect, rules }: Json): string {
  const lines = [
    ...(version === null ? [] : [`version: ${version.before ?? "–"} → ${version.after ?? "–"}`]),
    ...(effect === null ? [] : [`default_decision: ${effect.before} → ${effect.after}`]),
    ...rules.map((change: Json) => describeChange(change)),
  ];
  return lines.length === 0 ? "no differences\n" : lines.map((line) => `${line}\n`).join("");
}

function describeChange({ kind, rule_id: id, position, parts, from, to }: Json): string {
  switch (kind) {
    case "changed":
      return `changed ${id}: ${parts.join(", ")}`;
    case "moved":
      return `moved ${id}: from ${from} to ${to}`;
    default:
      return `${kind} ${id} at ${position}`;
  }
}
