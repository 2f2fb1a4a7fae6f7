/** Merges the configuration sources: defaults < `cordum.yaml` < environment < flags. Pure; results are frozen. */
import type { LiveSettings, Settings } from "../core/settings.ts";
import { engineSettings, type ProcessSettings, processSettings, type Values } from "./build.ts";
import { entriesInEnvironment, entriesInFile, type RawEntries, readValue } from "./parse.ts";
import { type SectionValue, sectionNamed, sectionProblems } from "./sections.ts";
import type { Origin, Value } from "./setting.ts";
import { SETTINGS, type SettingName } from "./table.ts";

export interface Config {
  readonly values: Values;
  readonly origins: Readonly<Record<SettingName, Origin>>;
  /** Values per tenant, pool and sender. */
  readonly sections: readonly SectionValue[];
  readonly settings: Settings;
  readonly process: ProcessSettings;
}

export interface Sources {
  readonly file?: { readonly name: string; readonly text: string } | undefined;
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** `flag` is the flag as typed, such as `--port`. */
  readonly flags?: readonly { readonly name: SettingName; readonly value: string; readonly flag: string }[] | undefined;
}

export type Configured =
  | { readonly kind: "ok"; readonly config: Config; readonly warnings: readonly string[] }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

export function configure(sources: Sources): Configured {
  const { given, problems, warnings } = gather(sources);
  const isBaseline = given.get("profile")?.value === "baseline";
  const values: Partial<Record<SettingName, Value>> = {};
  const origins: Partial<Record<SettingName, Origin>> = {};
  for (const setting of SETTINGS) {
    const fallback = defaultOf(setting, isBaseline);
    values[setting.name] = given.has(setting.name) ? (given.get(setting.name)?.value ?? null) : fallback.value;
    origins[setting.name] = given.get(setting.name)?.origin ?? fallback.origin;
  }
  const sections = [...given].flatMap(([name, { value, origin }]): SectionValue[] => {
    const found = sectionNamed(name);
    return found === null ? [] : [{ name, section: found.setting.name, id: found.id, value, origin }];
  });
  problems.push(...contradictions(values as Values), ...sectionProblems(sections));
  if (problems.length > 0) return { kind: "bad", problems };
  return { kind: "ok", config: configFrom(values as Values, origins as Config["origins"], sections), warnings };
}

type GivenValues = ReadonlyMap<string, { readonly value: Value; readonly origin: Origin }>;

interface GatheredValues {
  readonly given: GivenValues;
  readonly problems: string[];
  readonly warnings: readonly string[];
}

/** Later sources override earlier ones. */
function gather(sources: Sources): GatheredValues {
  const none: RawEntries = { entries: [], problems: [] };
  const gathered = {
    file: sources.file ? entriesInFile(sources.file) : none,
    environment: entriesInEnvironment(sources.env ?? {}),
    flag: entriesInFlags(sources.flags ?? []),
  };
  const given = new Map<string, { value: Value; origin: Origin }>();
  const problems: string[] = [];
  const warnings: string[] = [];
  for (const kind of ["file", "environment", "flag"] as const) {
    problems.push(...gathered[kind].problems);
    const seen = new Set<string>();
    for (const entry of gathered[kind].entries) {
      const read = readValue(entry);
      if ("problem" in read) problems.push(read.problem);
      else {
        given.set(entry.name, { value: read.value, origin: { kind, place: entry.place } });
        if (read.warning !== undefined) warnings.push(read.warning);
      }
      if (seen.has(entry.name)) problems.push(`${entry.place}: \`${entry.name}\` is set twice; remove one of them`);
      seen.add(entry.name);
    }
  }
  return { given, problems, warnings };
}

export type Overrides = Partial<Omit<Values, "profile">> & { readonly profile?: ProcessSettings["profile"] };

/** Engine settings from the defaults of the profile and overrides. */
export function settingsFrom(overrides: Overrides = {}): Settings {
  const isBaseline = overrides.profile === "baseline";
  const values = Object.fromEntries(SETTINGS.map((setting) => [setting.name, defaultOf(setting, isBaseline).value]));
  return deepFreeze(engineSettings({ ...values, ...overrides } as Values, []));
}

/** Of a process without a config file, environment and flags. */
export function defaultConfig(): Config {
  const configured = configure({});
  if (configured.kind === "bad") throw new Error(configured.problems.join("; "));
  return configured.config;
}

export function defaultSettings(): Settings {
  return settingsFrom();
}

export function baselineSettings(): Settings {
  return settingsFrom({ profile: "baseline" });
}

export interface Reloaded {
  readonly applied: readonly string[];
  readonly needRestart: readonly string[];
}

/** Settings of a running process; a reload applies the `live` ones and reports the others. */
export class LiveConfig implements LiveSettings {
  #config: Config;

  constructor(config: Config) {
    this.#config = config;
  }

  get current(): Settings {
    return this.#config.settings;
  }

  get config(): Config {
    return this.#config;
  }

  reload(next: Config): Reloaded {
    const before = this.#config;
    const changed = SETTINGS.filter((setting) => next.values[setting.name] !== before.values[setting.name]);
    const applied = changed.filter((setting) => setting.live).map((setting) => setting.name);
    const needRestart = changed.filter((setting) => !setting.live).map((setting) => setting.name);
    const values: Record<SettingName, Value> = { ...before.values };
    const origins: Record<SettingName, Origin> = { ...before.origins };
    for (const name of applied) {
      values[name] = next.values[name];
      origins[name] = next.origins[name];
    }
    this.#config = configFrom(values, origins, next.sections);
    return { applied: [...applied, ...sectionsChanged(before.sections, next.sections)], needRestart };
  }
}

/** Names of the section values that were added, removed or changed; all of them are live. */
function sectionsChanged(before: readonly SectionValue[], after: readonly SectionValue[]): readonly string[] {
  const isIn = (others: readonly SectionValue[], { name, value }: SectionValue) =>
    others.some((other) => other.name === name && other.value === value);
  const changed = [...before.filter((one) => !isIn(after, one)), ...after.filter((one) => !isIn(before, one))];
  return [...new Set(changed.map(({ name }) => name))];
}

function entriesInFlags(flags: NonNullable<Sources["flags"]>): RawEntries {
  return { entries: flags.map(({ name, value, flag }) => ({ name, raw: value, place: flag })), problems: [] };
}

function defaultOf(setting: (typeof SETTINGS)[number], isBaseline: boolean): { value: Value; origin: Origin } {
  if (isBaseline && setting.baseline !== undefined) {
    return { value: setting.baseline, origin: { kind: "baseline", place: "profile: baseline" } };
  }
  return { value: setting.default, origin: { kind: "default", place: "default" } };
}

/** Settings that are valid on their own but not in combination. */
function contradictions(values: Values): string[] {
  const problems: string[] = [];
  if ((values["nats.url"] === null) !== (values["redis.url"] === null)) {
    problems.push(
      "a cluster requires both `nats.url` (`--nats`) and `redis.url` (`--redis`); set both, or neither for embedded",
    );
  }
  if ((values["safety.tls.cert"] === null) !== (values["safety.tls.key"] === null)) {
    problems.push("`safety.tls.cert` and `safety.tls.key` require each other; set both, or neither");
  }
  if (values["cap.signatures"] === "enforce" && values["cap.key"] === null && values["nats.url"] !== null) {
    problems.push(
      "`cap.signatures: enforce` requires `cap.key`, which signs the packets of this process; generate a key with " +
        "`openssl ecparam -name prime256v1 -genkey -noout -out cap-key.pem` and set `cap.key: cap-key.pem`",
    );
  }
  if (values["notifications.approvals.urls"] && values["notifications.approvals.secret"] === null) {
    problems.push(
      "`notifications.approvals.urls` requires `notifications.approvals.secret`, which signs the requests; generate one " +
        "with `openssl rand -hex 32` and set `CORDUM_NOTIFICATIONS_APPROVALS_SECRET`",
    );
  }
  const secret = String(values["notifications.approvals.secret"] ?? "");
  if (secret.startsWith("whsec_") && !/^whsec_([A-Za-z0-9+/]{4}){6,}[A-Za-z0-9+/]{0,3}=*$/.test(secret)) {
    problems.push(
      "`notifications.approvals.secret` begins with `whsec_` and is not followed by at least 18 bytes in base64; generate one " +
        'with `echo "whsec_$(openssl rand -base64 32)"`',
    );
  }
  const needs = (smaller: SettingName, larger: SettingName, why: string) => {
    if (Number(values[smaller]) > Number(values[larger])) {
      problems.push(`\`${larger}\` (${values[larger]}) must be at least \`${smaller}\` (${values[smaller]}): ${why}`);
    }
  };
  needs("sweep.every_ms", "sweep.horizon_ms", "items due between two sweeps would fire late");
  needs("sweep.horizon_ms", "sweep.lease_ms", "a claimed item would be claimed again before it is due");
  needs("retention.idempotency_ms", "retention.jobs_ms", "an idempotency key would outlive its job");
  needs("retention.idempotency_ms", "retention.runs_ms", "an idempotency key would outlive its run");
  needs("dispatch.deadline_ms", "job.deadline_ms", "the job would time out before its first attempt");
  return problems;
}

function configFrom(values: Values, origins: Config["origins"], sections: readonly SectionValue[]): Config {
  return deepFreeze({
    values: { ...values },
    origins: { ...origins },
    sections: [...sections],
    settings: engineSettings(values, sections),
    process: processSettings(values),
  });
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const child of Object.values(value)) deepFreeze(child);
  }
  return value;
}
