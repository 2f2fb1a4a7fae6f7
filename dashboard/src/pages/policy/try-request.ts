/** A policy request as fields of a form and as JSON, each made from the other. */
import type { PolicyRequest } from "../../../../src/client/schema.ts";

export interface FieldSpec {
  readonly name: string;
  readonly label: string;
  readonly hint: string;
  /** `names`: separated by commas. `pairs`: `key=value`, separated by commas. */
  readonly kind: "text" | "names" | "pairs";
  readonly choices?: readonly string[];
}

/** A dot names a member: `mcp.tool`. */
export const FIELDS: readonly FieldSpec[] = [
  { name: "topic", label: "Topic", hint: "pay.refund", kind: "text" },
  { name: "tenant_id", label: "Tenant", hint: "your own", kind: "text" },
  { name: "risk_tags", label: "Risk tags", hint: "payment, pii", kind: "names" },
  { name: "capability", label: "Capability", hint: "", kind: "text" },
  { name: "requires", label: "Required of the worker", hint: "gpu", kind: "names" },
  { name: "labels", label: "Labels", hint: "env=prod, team=support", kind: "pairs" },
  { name: "actor_id", label: "Actor", hint: "agent:support-7", kind: "text" },
  { name: "actor_type", label: "Actor type", hint: "", kind: "text", choices: ["", "human", "service"] },
  { name: "pack_id", label: "Pack", hint: "", kind: "text" },
  { name: "caller.name", label: "Key of the submitter", hint: "you", kind: "text" },
  { name: "caller.role", label: "Role of the submitter", hint: "you", kind: "text" },
  { name: "mcp.server", label: "MCP server", hint: "", kind: "text" },
  { name: "mcp.tool", label: "MCP tool", hint: "", kind: "text" },
  { name: "mcp.resource", label: "MCP resource", hint: "", kind: "text" },
  { name: "mcp.action", label: "MCP action", hint: "", kind: "text" },
];

export type RequestFields = Readonly<Record<string, string>>;
type Members = Record<string, unknown>;

/** The fields of a request; members that the form lacks are kept by `withField`. */
export function fieldsOf(request: object): RequestFields {
  return Object.fromEntries(FIELDS.map(({ name, kind }) => [name, textOf(memberOf(request, name), kind)]));
}

/** The request with one field of the form. */
export function withField(request: object, name: string, text: string): object {
  const spec = FIELDS.find((field) => field.name === name);
  const value = spec === undefined ? undefined : memberFrom(text.trim(), spec.kind);
  const [outer = "", inner] = name.split(".");
  if (inner === undefined) return without({ ...request, [outer]: value });
  const members = without({ ...((request as Members)[outer] as object | undefined), [inner]: value });
  return without({ ...request, [outer]: Object.keys(members).length === 0 ? undefined : members });
}

export type ReadRequest =
  | { readonly kind: "ok"; readonly request: PolicyRequest }
  | { readonly kind: "bad"; readonly why: string };

/** The control plane checks the members. */
export function readRequest(text: string): ReadRequest {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value))
      return { kind: "bad", why: 'a request is an object, such as {"topic": "pay.refund"}' };
    return { kind: "ok", request: value as PolicyRequest };
  } catch (error) {
    return { kind: "bad", why: (error as Error).message };
  }
}

export type ReadRequests =
  | { readonly kind: "ok"; readonly requests: readonly PolicyRequest[] }
  | { readonly kind: "bad"; readonly why: string };

/** A JSON array, or one object per line, as `cordum policy simulate` reads them. */
export function readRequests(text: string): ReadRequests {
  if (text.trim() === "") return { kind: "ok", requests: [] };
  try {
    const values: unknown = JSON.parse(text);
    return { kind: "ok", requests: (Array.isArray(values) ? values : [values]) as PolicyRequest[] };
  } catch {
    return readLines(text.split("\n"));
  }
}

function readLines(lines: readonly string[]): ReadRequests {
  const requests: PolicyRequest[] = [];
  for (const [at, line] of lines.entries()) {
    if (line.trim() === "") continue;
    const read = readRequest(line);
    if (read.kind === "bad") return { kind: "bad", why: `line ${at + 1}: ${read.why}` };
    requests.push(read.request);
  }
  return { kind: "ok", requests };
}

/** Arguments of `cordum policy explain`. */
export function explainArguments(request: PolicyRequest): readonly [string, ...string[]] {
  const {
    topic,
    input,
    tenant_id,
    priority,
    labels = {},
    risk_tags = [],
    requires = [],
    mcp = {},
    caller = {},
  } = request;
  const option = (name: string, value: string | undefined) => (value === undefined ? [] : [name, value]);
  const pairs = (name: string, of: object) =>
    Object.entries(of).flatMap(([key, value]) => [name, `${key}=${String(value)}`]);
  return [
    "policy explain",
    topic ?? "",
    ...(input === undefined ? [] : [JSON.stringify(input)]),
    ...option("--tenant", tenant_id),
    ...option("--priority", priority),
    ...pairs("--label", labels),
    ...risk_tags.flatMap((tag) => ["--risk-tag", tag]),
    ...requires.flatMap((name) => ["--requires", name]),
    ...option("--capability", request.capability),
    ...option("--actor", request.actor_id),
    ...option("--actor-type", request.actor_type),
    ...option("--pack", request.pack_id),
    ...pairs("--mcp", mcp),
    ...pairs("--caller", caller),
  ];
}

function memberOf(request: object, name: string): unknown {
  return name.split(".").reduce<unknown>((value, key) => (value as Members | undefined)?.[key], request);
}

function textOf(value: unknown, kind: FieldSpec["kind"]): string {
  if (value === undefined || value === null) return "";
  if (kind === "names" && Array.isArray(value)) return value.join(", ");
  if (kind === "pairs" && typeof value === "object")
    return Object.entries(value)
      .map(([key, inner]) => `${key}=${String(inner)}`)
      .join(", ");
  return String(value);
}

function memberFrom(text: string, kind: FieldSpec["kind"]): unknown {
  if (text === "") return undefined;
  if (kind === "text") return text;
  const parts = text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  if (kind === "names") return parts;
  return Object.fromEntries(
    parts.map((part) => {
      const at = part.indexOf("=");
      return at < 0 ? [part, ""] : [part.slice(0, at).trim(), part.slice(at + 1).trim()];
    }),
  );
}

const without = (members: object): object =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
