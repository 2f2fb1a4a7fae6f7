/**
 * Parses the config file, the environment and flags into entries, and entries into values.
 *
 * All problems are reported, each with its place and a correction. Unknown names are errors.
 */
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, type Scalar } from "yaml";
import { isLoopback } from "../core/model/loopback.ts";
import { suggestion } from "../core/model/suggestion.ts";
import { parseBudget } from "../core/retry/budget.ts";
import { quote } from "../core/retry/duration.ts";
import { parsePolicy } from "../core/retry/policies.ts";
import { sectionInEnvironment, sectionNamed, suggestionInSection } from "./sections.ts";
import type { Setting, Value } from "./setting.ts";
import { environmentName, SETTING_NAMES, SETTINGS, settingNamed } from "./table.ts";

/** An entry before validation. */
export interface RawEntry {
  readonly name: string;
  readonly raw: unknown;
  /** `cordum.yaml:3`, `CORDUM_HTTP_PORT` or `--port`; used in messages and `config explain`. */
  readonly place: string;
}

export interface RawEntries {
  readonly entries: readonly RawEntry[];
  readonly problems: readonly string[];
}

/** Nested maps; `bus: {park_after_ms: 500}` is the setting `bus.park_after_ms`. */
export function entriesInFile(file: { readonly name: string; readonly text: string }): RawEntries {
  const lines = new LineCounter();
  const document = parseDocument(file.text, { lineCounter: lines, stringKeys: true });
  const placeOf = (node: Node | null | undefined) => `${file.name}:${lines.linePos(node?.range?.[0] ?? 0).line}`;
  const faults = [...document.errors, ...document.warnings];
  if (faults.length > 0) {
    const problems = faults.map((fault) => `${file.name}:${fault.linePos?.[0].line ?? 1}: ${firstLine(fault.message)}`);
    return { entries: [], problems };
  }
  const written: RawEntry[] = [];
  const problems: string[] = [];
  const walk = (node: unknown, path: string, place: string): void => {
    if (isMap(node)) {
      for (const { key, value } of node.items) {
        const name = isScalar(key) ? String(key.value) : "";
        walk(value, path === "" ? name : `${path}.${name}`, placeOf(key as Node));
      }
      return;
    }
    if (isScalar(node) && path !== "") written.push({ name: path, raw: node.value, place });
    else if (isSeq(node) && path !== "" && node.items.every(isScalar)) {
      written.push({ name: path, raw: node.items.map((item) => (item as Scalar).value), place });
    } else if (node !== null) problems.push(`${place}: expected \`name: value\` here, as in \`http: {port: 8081}\``);
  };
  walk(document.contents, "", `${file.name}:1`);
  return { entries: written, problems };
}

/** Reads `CORDUM_*` and `POLICY_CHECK_FAIL_MODE`. */
export function entriesInEnvironment(env: Readonly<Record<string, string | undefined>>): RawEntries {
  const names = new Map(SETTINGS.map((setting) => [environmentName(setting.name), setting.name]));
  const written: RawEntry[] = [];
  const problems: string[] = [];
  for (const [key, raw] of Object.entries(env)) {
    if (raw === undefined || !key.startsWith("CORDUM_") || CLIENT_VARIABLES.has(key) || isServiceLink(key, raw))
      continue;
    const name = names.get(key) ?? sectionInEnvironment(key) ?? undefined;
    if (name === undefined) problems.push(`unknown environment variable ${quote(key)}${suggestion(key, names.keys())}`);
    else written.push({ name, raw, place: key });
  }
  const failMode = env[FAIL_MODE_VARIABLE];
  if (failMode !== undefined) {
    const other = written.find((entry) => entry.name === "safety.fail_mode");
    if (other === undefined) written.push({ name: "safety.fail_mode", raw: failMode, place: FAIL_MODE_VARIABLE });
    else if (other.raw !== failMode) {
      problems.push(
        `\`${FAIL_MODE_VARIABLE}\` and \`${other.place}\` set the same setting to different values; unset one of them`,
      );
    }
  }
  return { entries: written, problems };
}

export type ReadValue = { readonly value: Value; readonly warning?: string | undefined } | { readonly problem: string };

export function readValue(entry: RawEntry): ReadValue {
  const setting = settingNamed(entry.name) ?? sectionNamed(entry.name)?.setting;
  if (setting === undefined) {
    const near = suggestionInSection(entry.name) || suggestion(entry.name, SETTING_NAMES);
    const hint = near || "; list all settings with `cordum config explain`";
    return { problem: `${entry.place}: unknown setting ${quote(entry.name)}${hint}` };
  }
  try {
    return { value: parseValue(setting, entry.raw), warning: deprecationOf(setting, entry) };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { problem: `${entry.place}: \`${setting.name}\`: ${why}` };
  }
}

/** Throws an error that names a valid value. */
export function parseValue(setting: Setting, raw: unknown): Value {
  const { type } = setting;
  if (type.kind === "secret") return raw === null ? null : secret(type, raw);
  if (type.kind === "urls") return raw === null ? "" : urls(type.max, raw);
  if (Array.isArray(raw) && type.kind !== "names") throw new Error("expected one value, not a list");
  const text = typeof raw === "string" ? raw.trim() : raw === null ? "" : String(raw);
  switch (type.kind) {
    case "whole": {
      if (type.orNever && (raw === null || text === "never")) return null;
      const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
      if (value >= type.min && value <= type.max) return value;
      const never = type.orNever ? " or `never`" : "";
      throw new Error(`${quote(text)} is not a whole number from ${type.min} to ${type.max} (${type.unit})${never}`);
    }
    case "choice":
      if (type.choices.includes(text)) return text;
      if (type.deprecated?.[text] !== undefined) return type.deprecated[text];
      if (setting.name === "safety.fail_mode") throw new Error(failModeRefusal(text));
      throw new Error(
        `${quote(text)} is not one of ${type.choices.map(quote).join(", ")}${suggestion(text, type.choices)}`,
      );
    case "text":
      if (raw === null) return null;
      if (typeof raw !== "string" || text === "") throw new Error(`${quote(text)} is not a ${type.unit}`);
      return text;
    case "names": {
      const given = Array.isArray(raw) ? raw.map(String) : text === "" ? [] : text.split(",");
      const names = given.map((name) => name.trim());
      const allowed = type.isPattern ? /^[A-Za-z0-9_.*>-]{1,128}$/ : /^[A-Za-z0-9_.-]{1,64}$/;
      const wrong = names.find((name) => !allowed.test(name));
      if (wrong !== undefined) throw new Error(`${quote(wrong)} is not a valid name; separate names by commas`);
      return names.join(",");
    }
    case "retry_policy":
      refuseForPoison(setting, parsePolicy(text).kind === "fixed", "`fixed:5s`");
      return text;
    case "retry_budget":
      refuseForPoison(setting, parseBudget(text).kind === "count", "`3` (attempts)");
      return text;
    default:
      throw new Error(`unknown setting type \`${(type satisfies never as Setting["type"]).kind}\``);
  }
}

function deprecationOf({ name, type }: Setting, { raw, place }: RawEntry): string | undefined {
  const value = String(raw).trim();
  const current = type.kind === "choice" ? type.deprecated?.[value] : undefined;
  if (current === undefined) return undefined;
  return `${place}: \`${name}: ${value}\` is deprecated; use \`${name}: ${current}\``;
}

/** Errors contain no URL: its path is often a credential. */
function urls(max: number, raw: unknown): string {
  const given = (Array.isArray(raw) ? raw.map(String) : String(raw).split(","))
    .map((url) => url.trim())
    .filter(Boolean);
  if (given.length > max) throw new Error(`${given.length} URLs are given; the limit is ${max}`);
  const parsed = given.map((url, at) => {
    const { protocol, hostname, username, password, href } = URL.canParse(url) ? new URL(url) : NO_URL;
    if (protocol !== "https:" && !(protocol === "http:" && isLoopback(hostname)))
      throw new Error(`URL ${at + 1} is not an \`https://\` URL; \`http://\` is accepted for loopback only`);
    if (username !== "" || password !== "") throw new Error(`URL ${at + 1} contains a user or password; remove it`);
    return href;
  });
  return [...new Set(parsed)].join(" ");
}

const NO_URL = { protocol: "", hostname: "", username: "", password: "", href: "" } as const;

/** Errors never contain the secret. */
function secret({ charsMin, charsMax }: Extract<Setting["type"], { kind: "secret" }>, raw: unknown): string {
  if (typeof raw !== "string") throw new Error("must be a string; put it in quotes");
  const text = raw.trim();
  if (/[^A-Za-z0-9._~+/=-]/.test(text)) {
    throw new Error("may contain only letters, digits and `-._~+/=`; generate one with `openssl rand -hex 32`");
  }
  if (text.length >= charsMin && text.length <= charsMax) return text;
  const length = text.length < charsMin ? `at least ${charsMin}` : `at most ${charsMax}`;
  throw new Error(`must have ${length} characters; generate one with \`openssl rand -hex 32\``);
}

/** Read by the CLI as a client; not settings of the control plane. */
const CLIENT_VARIABLES: ReadonlySet<string> = new Set(["CORDUM_URL", "CORDUM_API_KEY", "CORDUM_TENANT"]);

const FAIL_MODE_VARIABLE = "POLICY_CHECK_FAIL_MODE";

/** Kubernetes injects such variables into pods for a service named `cordum…`. */
function isServiceLink(key: string, value: string): boolean {
  return /_SERVICE_(HOST|PORT)(_|$)|_PORT_\d+_(TCP|UDP|SCTP)(_|$)/.test(key) || /^(tcp|udp|sctp):\/\//.test(value);
}

/** Undecodable messages have no record that could hold retry state beyond the broker's delivery count. */
function refuseForPoison(setting: Setting, isSimple: boolean, example: string): void {
  if (isSimple || !setting.name.startsWith("retry.poison.")) return;
  throw new Error(`undecodable messages have no record that holds retry state; use a value like ${example}`);
}

function failModeRefusal(mode: string): string {
  return (
    `${quote(mode)} is neither \`closed\` nor \`open\`; ` +
    "set `closed`, or `open` for a fail-open lease of 30 minutes from the start"
  );
}

function firstLine(text: string): string {
  return (text.split("\n")[0] ?? text).replace(/:$/, "");
}
