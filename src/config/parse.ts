/**
 * From what people wrote (a YAML file, environment variables, flags) to one value per setting, and where each came from.
 *
 * 1. Every problem is reported, not only the first; each names the place, the setting, and what to write instead.
 * 2. An unknown name is an error: a misspelt setting must not look as if it worked.
 */
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, type Scalar } from "yaml";
import { suggestion } from "../core/model/suggestion.ts";
import { parseBudget } from "../core/retry/budget.ts";
import { quote } from "../core/retry/duration.ts";
import { parsePolicy } from "../core/retry/policies.ts";
import { sectionInEnvironment, sectionNamed, suggestionInSection } from "./sections.ts";
import type { Setting, Value } from "./setting.ts";
import { environmentName, SETTING_NAMES, SETTINGS, settingNamed } from "./table.ts";

/** A value as somebody wrote it, before it is known to be right. */
export interface Written {
  readonly name: string;
  readonly raw: unknown;
  /** `cordum.yaml:3`, `CORDUM_HTTP_PORT`, `--port`: for messages and for `config explain`. */
  readonly place: string;
}

export interface Gathered {
  readonly written: readonly Written[];
  readonly problems: readonly string[];
}

/** `cordum.yaml`: nested maps, `bus: {park_after_ms: 500}`; the names of the levels joined by dots name the setting. */
export function writtenInFile(file: { readonly name: string; readonly text: string }): Gathered {
  const lines = new LineCounter();
  const document = parseDocument(file.text, { lineCounter: lines, stringKeys: true });
  const placeOf = (node: Node | null | undefined) => `${file.name}:${lines.linePos(node?.range?.[0] ?? 0).line}`;
  const faults = [...document.errors, ...document.warnings];
  if (faults.length > 0) {
    const problems = faults.map((fault) => `${file.name}:${fault.linePos?.[0].line ?? 1}: ${firstLine(fault.message)}`);
    return { written: [], problems };
  }
  const written: Written[] = [];
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
  return { written, problems };
}

/** `CORDUM_*`, and `POLICY_CHECK_FAIL_MODE` by its own name. */
export function writtenInEnvironment(env: Readonly<Record<string, string | undefined>>): Gathered {
  const names = new Map(SETTINGS.map((setting) => [environmentName(setting.name), setting.name]));
  const written: Written[] = [];
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
      problems.push(`\`${FAIL_MODE_VARIABLE}\` and \`${other.place}\` are one setting, but differ; unset one of them`);
    }
  }
  return { written, problems };
}

/** A value that is right for its setting, or the sentence that says what would be. */
export function readValue(entry: Written): { readonly value: Value } | { readonly problem: string } {
  const setting = settingNamed(entry.name) ?? sectionNamed(entry.name)?.setting;
  if (setting === undefined) {
    const near = suggestionInSection(entry.name) || suggestion(entry.name, SETTING_NAMES);
    const hint = near || "; `cordum config explain` lists them all";
    return { problem: `${entry.place}: unknown setting ${quote(entry.name)}${hint}` };
  }
  try {
    return { value: parseValue(setting, entry.raw) };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { problem: `${entry.place}: \`${setting.name}\`: ${why}` };
  }
}

/** Throws with what is wrong and what would be right. */
export function parseValue(setting: Setting, raw: unknown): Value {
  const { type } = setting;
  if (type.kind === "secret") return raw === null ? null : secret(type, raw);
  if (Array.isArray(raw) && type.kind !== "names") throw new Error("one value is expected here, not a list");
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
      const right = type.isPattern ? /^[A-Za-z0-9_.*>-]{1,128}$/ : /^[A-Za-z0-9_.-]{1,64}$/;
      const wrong = names.find((name) => !right.test(name));
      if (wrong !== undefined) throw new Error(`${quote(wrong)} is not a name; write names joined by commas`);
      return names.join(",");
    }
    case "retry_policy":
      refuseForPoison(setting, parsePolicy(text).kind === "fixed", "`fixed:5s`");
      return text;
    case "retry_budget":
      refuseForPoison(setting, parseBudget(text).kind === "count", "`3` (tries)");
      return text;
    default:
      throw new Error(`unknown type of setting \`${(type satisfies never as Setting["type"]).kind}\``);
  }
}

/** Whatever is wrong with it: what was written is not in the message. */
function secret({ charsMin, charsMax }: Extract<Setting["type"], { kind: "secret" }>, raw: unknown): string {
  if (typeof raw !== "string") throw new Error("it is a text; write it in quotes");
  const text = raw.trim();
  if (/[^A-Za-z0-9._~+/=-]/.test(text)) {
    throw new Error("only letters, digits and `-._~+/=` may be in it, as `openssl rand -hex 32` makes them");
  }
  if (text.length >= charsMin && text.length <= charsMax) return text;
  const length = text.length < charsMin ? `at least ${charsMin}` : `at most ${charsMax}`;
  throw new Error(`it must have ${length} characters; make one with \`openssl rand -hex 32\``);
}

/** Read by the command line when it is a client; no settings of the control plane. */
const CLIENT_VARIABLES: ReadonlySet<string> = new Set(["CORDUM_URL", "CORDUM_API_KEY", "CORDUM_TENANT"]);

const FAIL_MODE_VARIABLE = "POLICY_CHECK_FAIL_MODE";

/** Kubernetes puts such variables into every pod when a service is named `cordum…`: not meant for us. */
function isServiceLink(key: string, value: string): boolean {
  return /_SERVICE_(HOST|PORT)(_|$)|_PORT_\d+_(TCP|UDP|SCTP)(_|$)/.test(key) || /^(tcp|udp|sctp):\/\//.test(value);
}

/** Bytes that cannot be read belong to no record, so there is nowhere to keep more than the broker's own count. */
function refuseForPoison(setting: Setting, isSimple: boolean, example: string): void {
  if (isSimple || !setting.name.startsWith("retry.poison.")) return;
  throw new Error(`messages that cannot be read have no record to count on; write it like ${example}`);
}

function failModeRefusal(mode: string): string {
  return (
    `${quote(mode)} is neither \`closed\` nor \`open\`; a misspelt mode must not decide whether jobs go unchecked. ` +
    "Write `closed`, or `open` for a fail-open lease of 30 minutes from the start"
  );
}

function firstLine(text: string): string {
  return (text.split("\n")[0] ?? text).replace(/:$/, "");
}
