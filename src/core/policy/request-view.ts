/** A request under the variable names of conditions. Reused for every check, so nothing is copied. */
import type { PolicyRequest } from "./decision.ts";

export class RequestView {
  request: PolicyRequest | null = null;

  get job_id(): string {
    return this.request?.jobId ?? "";
  }
  get tenant(): string {
    return this.request?.org ?? "";
  }
  get topic(): string {
    return this.request?.topic ?? "";
  }
  get priority(): string {
    return this.request?.priority ?? "";
  }
  get capability(): string {
    return this.request?.capability ?? "";
  }
  get risk_tags(): readonly string[] {
    return this.request?.riskTags ?? [];
  }
  get requires(): readonly string[] {
    return this.request?.requires ?? [];
  }
  get labels(): Readonly<Record<string, string>> {
    return this.request?.labels ?? {};
  }
  get actor_id(): string {
    return this.request?.actorId ?? "";
  }
  get actor_type(): string {
    return this.request?.actorType ?? "";
  }
  get pack_id(): string {
    return this.request?.packId ?? "";
  }
  get mcp(): McpCall {
    return new McpCall(this.labels);
  }
  get caller(): CallerFields {
    return new CallerFields(this.request);
  }
  get now(): Date {
    return new Date(this.request?.nowMs ?? Number.NaN);
  }
  get input(): unknown {
    return this.request?.input ?? null;
  }
}

/** Labels of an MCP call, by policy key. */
export const MCP_LABELS = {
  servers: "mcp.server",
  tools: "mcp.tool",
  resources: "mcp.resource",
  actions: "mcp.action",
} as const;

export class McpCall {
  readonly server: string;
  readonly tool: string;
  readonly resource: string;
  readonly action: string;

  constructor(labels: Readonly<Record<string, string>>) {
    this.server = labelOf(labels, MCP_LABELS.servers) ?? "";
    this.tool = labelOf(labels, MCP_LABELS.tools) ?? "";
    this.resource = labelOf(labels, MCP_LABELS.resources) ?? "";
    this.action = labelOf(labels, MCP_LABELS.actions) ?? "";
  }
}

/** The authenticated submitter as conditions see it. Unknown parts are empty. */
export class CallerFields {
  readonly key: string;
  readonly name: string;
  readonly role: string;
  readonly tenant: string;

  constructor(request: PolicyRequest | null) {
    const caller = request?.caller;
    this.key = caller === undefined ? "" : (request?.callerKey ?? "");
    this.name = caller?.name ?? "";
    this.role = caller?.role ?? "";
    this.tenant = caller?.tenant ?? request?.org ?? "";
  }
}

/** Own properties only: `constructor` is not a label. */
export function labelOf(labels: PolicyRequest["labels"], key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}
