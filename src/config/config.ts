/**
 * Configuration: `cordum.yaml`, then environment, then flags, each stronger than the one before; read once, frozen.
 *
 * Pure: the caller reads the file and the environment, and hands them in. The table of settings is in
 * `config/table.ts`, those of single tenants, pools and senders in `config/sections.ts`, the reading of each source in
 * `config/parse.ts`.
 */

import type { LiveSettings, Settings } from "../core/settings.ts";
import { flowSettings, type ProcessSettings, processSettings, type Values } from "./build.ts";
import { type Gathered, readValue, writtenInEnvironment, writtenInFile } from "./parse.ts";
import { type SectionValue, sectionNamed, sectionProblems } from "./sections.ts";
import type { Origin, Value } from "./setting.ts";
import { SETTINGS, type SettingName } from "./table.ts";

export interface Config {
  readonly values: Values;
  readonly origins: Readonly<Record<SettingName, Origin>>;
  /** What was said of single tenants, pools and senders. */
  readonly sections: readonly SectionValue[];
  /** What the flow reads. */
  readonly settings: Settings;
  /** What the process around it reads. */
  readonly process: ProcessSettings;
}

export interface Sources {
  readonly file?: { readonly name: string; readonly text: string } | undefined;
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** Settings given as flags, by the setting's name; `flag` is how it was written. */
  readonly flags?: readonly { readonly name: SettingName; readonly value: string; readonly flag: string }[] | undefined;
}

export type Configured =
  | { readonly kind: "ok"; readonly config: Config }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

export function configure(sources: Sources): Configured {
  const { given, problems } = gather(sources);
  const founding = given.get("profile")?.value === "founding";
  const values: Partial<Record<SettingName, Value>> = {};
  const origins: Partial<Record<SettingName, Origin>> = {};
  for (const setting of SETTINGS) {
    const fallback = defaultOf(setting, founding);
    values[setting.name] = given.has(setting.name) ? (given.get(setting.name)?.value ?? null) : fallback.value;
    origins[setting.name] = given.get(setting.name)?.origin ?? fallback.origin;
  }
  const sections = [...given].flatMap(([name, { value, origin }]): SectionValue[] => {
    const found = sectionNamed(name);
    return found === null ? [] : [{ name, section: found.setting.name, id: found.id, value, origin }];
  });
  problems.push(...contradictions(values as Values), ...sectionProblems(sections));
  if (problems.length > 0) return { kind: "bad", problems };
  return { kind: "ok", config: configFrom(values as Values, origins as Config["origins"], sections) };
}

type DecisionContext = ReadonlyMap<string, { readonly value: Value; readonly origin: Origin }>;

/** What was written anywhere, the strongest source last. */
function gather(sources: Sources): { readonly given: DecisionContext; readonly problems: string[] } {
  const none: Gathered = { written: [], problems: [] };
  const gathered = {
    file: sources.file ? writtenInFile(sources.file) : none,
    environment: writtenInEnvironment(sources.env ?? {}),
    flag: flagsAsWritten(sources.flags ?? []),
  };
  const given = new Map<string, { value: Value; origin: Origin }>();
  const problems: string[] = [];
  for (const kind of ["file", "environment", "flag"] as const) {
    problems.push(...gathered[kind].problems);
    const seen = new Set<string>();
    for (const entry of gathered[kind].written) {
      const read = readValue(entry);
      if ("problem" in read) problems.push(read.problem);
      else given.set(entry.name, { value: read.value, origin: { kind, place: entry.place } });
      if (seen.has(entry.name)) problems.push(`${entry.place}: \`${entry.name}\` is set twice; remove one of them`);
      seen.add(entry.name);
    }
  }
  return { given, problems };
}

/** Settings as the flow reads them, from the defaults of the profile and what differs from them. */
export function settingsFrom(differing: Partial<Values> = {}): Settings {
  const founding = differing.profile === "founding";
  const values = Object.fromEntries(SETTINGS.map((setting) => [setting.name, defaultOf(setting, founding).value]));
  return deepFreeze(flowSettings({ ...values, ...differing } as Values, []));
}

export function defaultSettings(): Settings {
  return settingsFrom();
}

export function foundingSettings(): Settings {
  return settingsFrom({ profile: "founding" });
}

/** What a changed config means for a running process. */
export interface Reloaded {
  readonly taken: readonly string[];
  readonly needRestart: readonly string[];
}

/** Settings that follow a changed config file, as far as they can without a restart. */
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
    const taken = changed.filter((setting) => setting.live).map((setting) => setting.name);
    const needRestart = changed.filter((setting) => !setting.live).map((setting) => setting.name);
    const values: Record<SettingName, Value> = { ...before.values };
    const origins: Record<SettingName, Origin> = { ...before.origins };
    for (const name of taken) {
      values[name] = next.values[name];
      origins[name] = next.origins[name];
    }
    this.#config = configFrom(values, origins, next.sections);
    return { taken: [...taken, ...sectionsChanged(before.sections, next.sections)], needRestart };
  }
}

/** All of them are taken over: which ones were added, removed or changed. */
function sectionsChanged(before: readonly SectionValue[], after: readonly SectionValue[]): readonly string[] {
  const isIn = (others: readonly SectionValue[], { name, value }: SectionValue) =>
    others.some((other) => other.name === name && other.value === value);
  const changed = [...before.filter((one) => !isIn(after, one)), ...after.filter((one) => !isIn(before, one))];
  return [...new Set(changed.map(({ name }) => name))];
}

function flagsAsWritten(flags: NonNullable<Sources["flags"]>): Gathered {
  return { written: flags.map(({ name, value, flag }) => ({ name, raw: value, place: flag })), problems: [] };
}

function defaultOf(setting: (typeof SETTINGS)[number], founding: boolean): { value: Value; origin: Origin } {
  if (founding && setting.founding !== undefined) {
    return { value: setting.founding, origin: { kind: "founding", place: "profile: founding" } };
  }
  return { value: setting.default, origin: { kind: "default", place: "default" } };
}

/** Settings that are each right but do not fit together. */
function contradictions(values: Values): string[] {
  const problems: string[] = [];
  if ((values["nats.url"] === null) !== (values["redis.url"] === null)) {
    problems.push(
      "a cluster needs both `nats.url` (`--nats`) and `redis.url` (`--redis`); give both, or neither for embedded",
    );
  }
  if ((values["safety.tls.cert"] === null) !== (values["safety.tls.key"] === null)) {
    problems.push("`safety.tls.cert` and `safety.tls.key` belong together; give both, or neither");
  }
  if (values["cap.signatures"] === "enforce" && values["cap.key"] === null && values["nats.url"] !== null) {
    problems.push(
      "`cap.signatures: enforce` would refuse what this process sends itself: it has no key to sign with; make one with " +
        "`openssl ecparam -name prime256v1 -genkey -noout -out cap-key.pem`, and set `cap.key: cap-key.pem`",
    );
  }
  const needs = (smaller: SettingName, larger: SettingName, why: string) => {
    if (Number(values[smaller]) > Number(values[larger])) {
      problems.push(`\`${larger}\` (${values[larger]}) must be at least \`${smaller}\` (${values[smaller]}): ${why}`);
    }
  };
  needs("sweep.every_ms", "sweep.horizon_ms", "what falls due between two sweeps would be late");
  needs("sweep.horizon_ms", "sweep.lease_ms", "a claimed item would be claimed again before its time");
  needs("retention.idempotency_ms", "retention.jobs_ms", "a key would outlive the job that it stands for");
  needs("retention.idempotency_ms", "retention.runs_ms", "a key would outlive the run that it stands for");
  needs("dispatch.deadline_ms", "job.deadline_ms", "the job would end before its first attempt could");
  return problems;
}

function configFrom(values: Values, origins: Config["origins"], sections: readonly SectionValue[]): Config {
  return deepFreeze({
    values: { ...values },
    origins: { ...origins },
    sections: [...sections],
    settings: flowSettings(values, sections),
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
