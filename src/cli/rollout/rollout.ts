import type { Command } from "commander";
import { InvalidArgumentError } from "commander";
import { terminalJson } from "../../core/model/json.ts";
import { type Client, type Json, retryWhileUnavailable } from "../client.ts";
import { addCommand, addGroup, addListCommand, type CommandContext, collect, durationUpTo } from "../context.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, printable, showPage } from "../table.ts";
import { hasEnded, percent, rolloutText } from "./rollout-view.ts";

export function addRollout(program: Command, context: CommandContext): void {
  const rollout = addGroup(program, "rollout", "roll out a retry policy: predict, canary, compare, roll back, promote");
  addStart(rollout, context);
  addViews(rollout, context);
  addTransitions(rollout, context);
}

function addStart(rollout: Command, { io, client, exit }: CommandContext): void {
  addCommand(rollout, "start", "use a policy for a share of the units and compare it with the policy in force")
    .argument("<class>", "retry class or setting, such as lock_busy or run_lock.engine_wait_ms")
    .requiredOption("--policy <policy>", "treatment value, such as bounded:500ms:0.3")
    .requiredOption("--share <share>", "treatment share, such as 10%; a ramp, such as 10%,30%,50%", shares)
    .option("--orgs <tenants>", "tenants that take part, separated by commas (default: all)", names)
    .option(
      "--for <duration>",
      "end the rollout after this time (default: 168h)",
      durationUpTo(90 * 24 * HOUR_MS, 1_000),
    )
    .option(
      "--horizon <duration>",
      "score a unit by its first minutes (default: 10m)",
      durationUpTo(24 * HOUR_MS, 1_000),
    )
    .option("--gate <gate>", "condition such as run_lock_wait_p95<=1.2x; repeatable", collect, [])
    .option("--switch <duration>", "let the arms alternate in time blocks", durationUpTo(24 * HOUR_MS, 1_000))
    .option("--dry-run", "show the prediction and the smallest detectable effects; start nothing")
    .action(async (subject: string, options: StartOptions) => exit(await start(io, client(), subject, options)));
}

function addViews(rollout: Command, { io, client, exit }: CommandContext): void {
  addListCommand(rollout, "list", "list rollouts, newest first").action(async (options: PageOptions) =>
    exit(await list(io, client(), options)),
  );
  addCommand(rollout, "status", "show the active rollouts, or one: arms, gates, evidence")
    .argument("[id]", "rollout id")
    .option("--watch", "show changes until the rollout has ended")
    .action(async (id: string | undefined, options: WatchOptions) => exit(await status(io, client(), id, options)));
  addCommand(rollout, "show", "show one rollout with all figures")
    .argument("<id>", "rollout id")
    .action(async (id: string, options: { json?: boolean }) => exit(await show(io, client(), id, options)));
  addCommand(rollout, "export", "write a report of a rollout: an HTML page with plots, and JSON")
    .argument("<id>", "rollout id")
    .argument("<dir>", "directory for the files")
    .action(async (id: string, dir: string, options: { json?: boolean }) => {
      // Loaded on demand: charts would slow down the start of every other command.
      const { exportRollout } = await import("./export-rollout.ts");
      exit(
        await exportRollout(
          io,
          await client().request("GET /rollouts/{id}", { path: { id } }),
          dir,
          options.json === true,
        ),
      );
    });
}

function addTransitions(rollout: Command, { io, client, exit }: CommandContext): void {
  for (const { name, summary, done } of TRANSITIONS) {
    const command = addCommand(rollout, name, summary)
      .argument("<id>", "rollout id")
      .option("--reason <text>", "reason for the audit log");
    if (name === "promote") command.option("--force", "promote without a proof; requires --reason");
    command.action(async (id: string, { reason, force, json }: TransitionOptions) => {
      const changed = await client().request(`POST /rollouts/{id}/${name}`, { path: { id }, body: { reason, force } });
      if (json) printJson(io, changed);
      else io.out(`${changed.id} ${done} (${changed.class}: ${changed.policy})\n`);
      exit(EXIT.ok);
    });
  }
}

const TRANSITIONS = [
  { name: "pause", summary: "enrol no more units; enrolled ones keep their arm", done: "paused" },
  { name: "resume", summary: "enrol units again", done: "resumed" },
  {
    name: "rollback",
    summary: "use the policy in force before for all units, also after a promotion",
    done: "rolled back",
  },
  { name: "promote", summary: "use the treatment value for all units, without a restart", done: "promoted" },
  { name: "end", summary: "end the rollout without a promotion", done: "ended" },
] as const;

interface TransitionOptions {
  readonly json?: boolean;
  readonly reason?: string;
  readonly force?: boolean;
}

interface StartOptions {
  readonly json?: boolean;
  readonly policy: string;
  readonly share: readonly number[];
  readonly orgs?: readonly string[];
  readonly for?: number;
  readonly horizon?: number;
  readonly gate: readonly string[];
  readonly switch?: number;
  readonly dryRun?: boolean;
}

async function start(io: Io, client: Client, subject: string, options: StartOptions): Promise<ExitCode> {
  const body = {
    class: subject,
    policy: options.policy,
    share: options.share.length === 1 ? (options.share[0] as number) : options.share,
    orgs: options.orgs,
    for_ms: options.for,
    horizon_ms: options.horizon,
    gates: options.gate.length === 0 ? undefined : options.gate,
    switch_ms: options.switch,
  };
  if (options.dryRun) {
    const plan = await client.request("POST /rollouts/preview", { body });
    if (options.json) printJson(io, plan);
    else io.out(planText(plan));
    if (plan.active !== null) io.err(`${plan.active} of this class is active: end it before the start\n`);
    return EXIT.ok;
  }
  const started = await client.request("POST /rollouts", { body });
  if (options.json) printJson(io, started);
  else io.out(`${started.id}\n`);
  io.err(planText(started));
  io.err(`next: ${io.command} rollout status ${started.id} --watch\n`);
  return EXIT.ok;
}

function planText(plan: Json): string {
  const tenants = plan.orgs.length === 0 ? "all tenants" : plan.orgs.map(printable).join(", ");
  const change = `${plan.class}: ${plan.control} → ${plan.policy} for ${percent(plan.shares[0])} of ${tenants}\n`;
  return change + predictionText(plan.prediction) + detectableText(plan);
}

function predictionText(prediction: Json | null): string {
  if (prediction === null) return "no prediction: no lock contention is recorded yet\n";
  const { control, treatment, acquisitions, from, to } = prediction;
  const figure = (name: string, before: number, after: number, unit: string) =>
    `  ${name.padEnd(22)}${Math.round(before)} → ${Math.round(after)}${unit}\n`;
  return [
    `predicted from ${acquisitions} recorded acquisitions (${from} to ${to}):\n`,
    figure("busy retries", control.busy_retries, treatment.busy_retries, ""),
    figure("lock wait p95", control.run_lock_wait_ms.p95, treatment.run_lock_wait_ms.p95, " ms"),
    figure("result latency p95", control.job_result_latency_ms.p95, treatment.job_result_latency_ms.p95, " ms"),
  ].join("");
}

function detectableText({ detectable, ends_at: endsAt }: Json): string {
  if (detectable === null) return "the traffic is not known: no effect size can be given\n";
  const ratios = detectable.effects.map(({ gate, ratio }: Json) =>
    ratio === null ? `${gate}: none` : `${gate}: ${ratio}x`,
  );
  return (
    `smallest detectable effects at ${Math.round(detectable.units_per_hour)} units per hour until ${endsAt}:\n` +
    ratios.map((text: string) => `  ${text}\n`).join("")
  );
}

async function list(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  const { limit, cursor } = options;
  return showPage(io, await client.request("GET /rollouts", { query: { limit, cursor } }), options, {
    headers: ["ROLLOUT", "CLASS", "CONTROL", "POLICY", "SHARE", "STATE", "STARTED", "REASON"],
    row: (one) => [
      one.id,
      one.class,
      one.control,
      one.policy,
      percent(one.share),
      one.state,
      one.started_at,
      one.reason,
    ],
    command: "rollout list",
  });
}

interface WatchOptions {
  readonly json?: boolean;
  readonly watch?: boolean;
}

async function status(io: Io, client: Client, id: string | undefined, options: WatchOptions): Promise<ExitCode> {
  const { json = false, watch = false } = options;
  let shown = "";
  for (;;) {
    const ids = id === undefined ? await activeIds(client) : [id];
    const rollouts: Json[] = [];
    for (const one of ids) {
      const load = () => client.request("GET /rollouts/{id}", { path: { id: one } });
      rollouts.push(watch ? await retryWhileUnavailable(io, Number.POSITIVE_INFINITY, load) : await load());
    }
    const text = json ? formatDocuments(rollouts, watch) : rollouts.map(rolloutText).join("\n");
    if (text !== shown) io.out(watch && shown !== "" && !json ? `\n${text}` : text);
    shown = text;
    if (!json && rollouts.length === 0) io.err(`no active rollout; next: ${io.command} rollout start --help\n`);
    if (!watch || rollouts.every(hasEnded)) return EXIT.ok;
    await io.sleep(WATCH_MS);
  }
}

/** `--watch` prints one document per line. */
const formatDocuments = (rollouts: readonly Json[], isStream: boolean): string =>
  isStream ? rollouts.map((one) => `${terminalJson(one)}\n`).join("") : `${terminalJson({ items: rollouts }, 2)}\n`;

async function activeIds(client: Client): Promise<readonly string[]> {
  const { items } = await client.request("GET /rollouts", { query: { limit: 200 } });
  return items.filter((one: Json) => !hasEnded(one)).map((one: Json) => one.id);
}

async function show(io: Io, client: Client, id: string, { json }: { json?: boolean }): Promise<ExitCode> {
  const rollout = await client.request("GET /rollouts/{id}", { path: { id } });
  if (json) printJson(io, rollout);
  else io.out(rolloutText(rollout));
  return EXIT.ok;
}

function shares(text: string): readonly number[] {
  return text.split(",").map((part) => {
    const [, digits] = /^\s*(\d{1,3}(?:\.\d{1,3})?)\s*%\s*$/.exec(part) ?? [];
    if (digits === undefined) throw new InvalidArgumentError(`\`${part}\` is not a percentage such as 10%.`);
    return Number(digits) / 100;
  });
}

const names = (text: string): readonly string[] =>
  text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");

const HOUR_MS = 3_600_000;
const WATCH_MS = 2_000;
