/**
 * Settings per tenant, pool or packet sender: `orgs.<id>.…`, `pools.<name>.…`, `cap.senders.<id>.…`.
 *
 * Environment variables reach only ids of lower-case letters, digits and `_`: `CORDUM_ORGS_ACME_EU_WEIGHT` is
 * `orgs.acme_eu.weight`. Other ids are set in the file.
 */
import { suggestion } from "../core/model/suggestion.ts";
import type { OrgSettings, PoolSettings, SenderSettings } from "../core/settings.ts";
import { count, type Origin, type Setting, type Value } from "./setting.ts";

export const SECTIONS = [
  {
    name: "orgs.<id>.limits.max_concurrent_jobs",
    type: count("jobs", 1, 1_000_000),
    default: null,
    live: true,
    help: "Overrides `limits.max_concurrent_jobs` for one tenant.",
  },
  {
    name: "orgs.<id>.limits.max_concurrent_runs",
    type: count("runs", 1, 1_000_000),
    default: null,
    live: true,
    help: "Overrides `limits.max_concurrent_runs` for one tenant.",
  },
  {
    name: "orgs.<id>.limits.backlog_max",
    type: count("jobs", 1, 100_000_000),
    default: null,
    live: true,
    help: "Overrides `limits.backlog_max` for one tenant.",
  },
  {
    name: "orgs.<id>.limits.stored_bytes_max",
    type: count("bytes", 1_024, 1024 ** 4),
    default: null,
    live: true,
    help: "Overrides `limits.stored_bytes_max` for one tenant.",
  },
  {
    name: "orgs.<id>.limits.streams_max",
    type: count("streams", 1, 1_000_000),
    default: null,
    live: true,
    help: "Overrides `limits.streams_max` for one tenant.",
  },
  {
    name: "orgs.<id>.limits.polled_topics_max",
    type: count("topics", 1, 1_000_000),
    default: null,
    live: true,
    help: "Overrides `limits.polled_topics_max` for one tenant.",
  },
  {
    name: "orgs.<id>.limits.schedules_max",
    type: count("schedules", 1, 10_000_000),
    default: null,
    live: true,
    help: "Overrides `limits.schedules_max` for one tenant.",
  },
  {
    name: "orgs.<id>.weight",
    type: count("turns", 1, 100),
    default: 1,
    live: true,
    help: "Fair-share weight: jobs of this tenant dispatched per job of a tenant of weight 1 while both have a backlog.",
  },
  {
    name: "pools.<name>.topics",
    type: { kind: "names", isPattern: true },
    default: null,
    live: true,
    help: "Topics that the workers of this pool serve; `*` matches one token, `>` matches the rest.",
  },
  {
    name: "pools.<name>.requires",
    type: { kind: "names" },
    default: "",
    live: true,
    help: "Capabilities of the workers of this pool; jobs that require others are not dispatched to it.",
  },
  {
    name: "cap.senders.<id>.key",
    type: { kind: "text", unit: "path" },
    default: null,
    live: true,
    help: "Public key of this packet sender (PEM, P-256; several keys during rotation).",
  },
  {
    name: "cap.senders.<id>.tenants",
    type: { kind: "names" },
    default: "",
    live: true,
    help: "Tenants for which this sender may submit and complete jobs; without any it is a worker for all tenants and submits for none.",
  },
  {
    name: "cap.senders.<id>.person",
    type: { kind: "text", unit: "name" },
    default: null,
    live: true,
    help: "Owner of this sender, as `person` of an API key: cannot approve the jobs that it submits.",
  },
  {
    name: "cap.senders.<id>.actor_id",
    type: { kind: "text", unit: "name" },
    default: null,
    live: true,
    help: "Actor of all submissions of this sender; others are refused.",
  },
  {
    name: "cap.senders.<id>.actor_type",
    type: { kind: "choice", choices: ["human", "service"] },
    default: null,
    live: true,
    help: "Actor type of all submissions of this sender; others are refused.",
  },
] as const satisfies readonly Setting[];

type SectionName = (typeof SECTIONS)[number]["name"];

/** A configured value of a section. */
export interface SectionValue {
  /** For example `orgs.acme.weight`. */
  readonly name: string;
  readonly section: SectionName;
  /** The id of the tenant, pool or sender. */
  readonly id: string;
  readonly value: Value;
  readonly origin: Origin;
}

/** Resolves `orgs.acme.weight` to its section and id. */
export function sectionNamed(
  name: string,
): { readonly setting: (typeof SECTIONS)[number]; readonly id: string } | null {
  for (const setting of SECTIONS) {
    const id = patternOf(setting.name, idPattern(setting.name)).exec(name)?.[1];
    if (id !== undefined) return { setting, id };
  }
  return null;
}

/** `CORDUM_ORGS_ACME_WEIGHT` is `orgs.acme.weight`. */
export function sectionInEnvironment(key: string): string | null {
  for (const { name } of SECTIONS) {
    const id = patternOf(environmentTemplate(name), "[A-Z0-9_]{1,64}").exec(key)?.[1];
    if (id !== undefined) return name.replace(PLACEHOLDER, id.toLowerCase());
  }
  return null;
}

export const environmentTemplate = (name: string): string =>
  `CORDUM_${name.replace(PLACEHOLDER, "\0").replaceAll(".", "_").toUpperCase().replace("\0", "<ID>")}`;

/** The nearest valid name for a name that starts like a section; otherwise empty. */
export function suggestionInSection(name: string): string {
  const before = SECTIONS.map((section) => prefixOf(section.name)).find((prefix) => name.startsWith(prefix));
  if (before === undefined) return "";
  const [id = ""] = name.slice(before.length).split(".");
  const siblings = SECTIONS.filter((section) => prefixOf(section.name) === before);
  const names = siblings.map((section) => section.name.replace(PLACEHOLDER, id));
  return suggestion(name, names) || `; valid names are ${siblings.map((section) => `\`${section.name}\``).join(", ")}`;
}

export function sectionProblems(given: readonly SectionValue[]): readonly string[] {
  const without = (needed: SectionName) => {
    const ids = given.filter(({ section }) => prefixOf(section) === prefixOf(needed)).map(({ id }) => id);
    const has = (id: string) => given.some((entry) => entry.section === needed && entry.id === id && entry.value);
    return [...new Set(ids)].filter((id) => !has(id));
  };
  return [
    ...without("pools.<name>.topics").map(
      (id) => `pool \`${id}\` has no topics; write \`pools: {${id}: {topics: [demo.*]}}\``,
    ),
    ...without("cap.senders.<id>.key").map(
      (id) => `sender \`${id}\` has no key; write \`cap: {senders: {${id}: {key: ${id}.pub.pem}}}\``,
    ),
  ];
}

export function sectionSettings(given: readonly SectionValue[]) {
  const orgs: Record<string, OrgSettings> = {};
  const pools: Record<string, PoolSettings> = {};
  const senders: Record<string, SenderSettings> = {};
  for (const { section, id, value } of given) {
    const pool = pools[id] ?? { topics: [], requires: [] };
    const sender = senders[id] ?? { keyFile: "", tenants: [] };
    switch (section) {
      case "orgs.<id>.limits.max_concurrent_jobs":
      case "orgs.<id>.limits.max_concurrent_runs":
      case "orgs.<id>.limits.backlog_max":
      case "orgs.<id>.limits.stored_bytes_max":
      case "orgs.<id>.limits.streams_max":
      case "orgs.<id>.limits.polled_topics_max":
      case "orgs.<id>.limits.schedules_max":
        orgs[id] = { ...orgs[id], limits: { ...orgs[id]?.limits, [TENANT_LIMITS[section]]: Number(value) } };
        break;
      case "orgs.<id>.weight":
        orgs[id] = { ...orgs[id], weight: Number(value) };
        break;
      case "pools.<name>.topics":
        pools[id] = { ...pool, topics: namesIn(value) };
        break;
      case "pools.<name>.requires":
        pools[id] = { ...pool, requires: namesIn(value) };
        break;
      case "cap.senders.<id>.key":
        senders[id] = { ...sender, keyFile: String(value) };
        break;
      case "cap.senders.<id>.tenants":
        senders[id] = { ...sender, tenants: namesIn(value) };
        break;
      case "cap.senders.<id>.person":
        senders[id] = { ...sender, person: String(value).normalize("NFC") };
        break;
      case "cap.senders.<id>.actor_id":
        senders[id] = { ...sender, actorId: String(value) };
        break;
      case "cap.senders.<id>.actor_type":
        senders[id] = { ...sender, actorType: value === "human" ? "human" : "service" };
        break;
      default:
        section satisfies never;
    }
  }
  return { orgs, pools, senders };
}

const TENANT_LIMITS = {
  "orgs.<id>.limits.max_concurrent_jobs": "concurrentJobsMax",
  "orgs.<id>.limits.max_concurrent_runs": "concurrentRunsMax",
  "orgs.<id>.limits.backlog_max": "backlogMax",
  "orgs.<id>.limits.stored_bytes_max": "storedBytesMax",
  "orgs.<id>.limits.streams_max": "streamsMax",
  "orgs.<id>.limits.polled_topics_max": "polledTopicsMax",
  "orgs.<id>.limits.schedules_max": "schedulesMax",
} as const satisfies Partial<Record<SectionName, keyof NonNullable<OrgSettings["limits"]>>>;

/** Splits a value of the kind `names`. */
export const namesIn = (value: Value): readonly string[] =>
  String(value ?? "")
    .split(",")
    .filter(Boolean);

const PLACEHOLDER = /<\w+>/i;

/** `pools.` of `pools.<name>.topics`. */
const prefixOf = (template: string): string => template.split(PLACEHOLDER)[0] ?? "";

/** Sender ids are chosen by the senders and often contain a host and port. */
const idPattern = (template: string): string =>
  template.startsWith("cap.senders.") ? "[A-Za-z0-9_.:@-]{1,128}" : "[A-Za-z0-9_-]{1,64}";

function patternOf(template: string, id: string): RegExp {
  const [before = "", after = ""] = template.split(PLACEHOLDER).map((part) => part.replaceAll(".", "\\."));
  return new RegExp(`^${before}(${id})${after}$`);
}
