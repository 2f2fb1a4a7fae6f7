/** The request body of policy evaluation: the job fields that a policy sees, validated like a submission. */
import { type Static, type TSchema, Type } from "typebox";
import { checkSubmission } from "../../core/jobs/submission.ts";
import type { Caller } from "../../core/model/caller.ts";
import type { PolicyRequest } from "../../core/policy/decision.ts";
import { isTenant } from "../auth/access.ts";
import { instant, json } from "../views/schemas.ts";

const optional = <T extends TSchema>(type: T) => Type.Optional(type);
const names = Type.Array(Type.String());

export const POLICY_REQUEST_BODY = Type.Object(
  {
    topic: Type.String(),
    tenant_id: optional(
      Type.String({ description: "A tenant other than that of the caller; requires a key of tenant `*`." }),
    ),
    job_id: optional(Type.String()),
    priority: optional(Type.String()),
    capability: optional(Type.String()),
    risk_tags: optional(names),
    requires: optional(names),
    labels: optional(Type.Record(Type.String(), Type.String())),
    actor_id: optional(Type.String()),
    actor_type: optional(Type.String()),
    pack_id: optional(Type.String()),
    mcp: optional(
      Type.Object({
        server: optional(Type.String()),
        tool: optional(Type.String()),
        resource: optional(Type.String()),
        action: optional(Type.String()),
      }),
    ),
    caller: optional(
      Type.Object(
        {
          key: optional(Type.String()),
          name: optional(Type.String()),
          role: optional(Type.String()),
          tenant: optional(Type.String()),
        },
        { description: "The submitter to evaluate for; defaults to the caller of this request." },
      ),
    ),
    now: optional(instant("The time of the evaluation: `now` in conditions; defaults to the present.")),
    input: optional(json("Input of the job.")),
  },
  { title: "PolicyRequest" },
);

export type PolicyRequestBody = Static<typeof POLICY_REQUEST_BODY>;

export type ParsedPolicyRequest =
  | { readonly kind: "ok"; readonly request: PolicyRequest }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

/** `nowMs`: the time of the evaluation, and `sender` the submitter, if the body has none. */
export function readPolicyRequest(
  body: PolicyRequestBody,
  org: string,
  nowMs: number,
  sender?: { readonly id: string; readonly caller: Caller },
): ParsedPolicyRequest {
  const { tenant_id: tenant = org, mcp = {} } = body;
  if (!isTenant(tenant)) {
    return { kind: "bad", problems: ["`tenant_id` must be 1 to 64 letters, digits, `_` or `-`"] };
  }
  const atMs = body.now === undefined ? nowMs : Date.parse(body.now);
  if (Number.isNaN(atMs)) return { kind: "bad", problems: ["`now` must be a time such as `2026-03-02T09:30:00Z`"] };
  const own = body.caller === undefined ? sender?.caller : undefined;
  const mcpLabels = Object.entries(mcp).map(([part, name]) => [`mcp.${part}`, name]);
  const checked = checkSubmission({
    org: tenant,
    topic: body.topic,
    input: body.input,
    jobId: body.job_id,
    priority: body.priority,
    labels: { ...body.labels, ...Object.fromEntries(mcpLabels) },
    riskTags: body.risk_tags,
    requires: body.requires,
    capability: body.capability,
    actorId: body.actor_id ?? own?.actorId,
    actorType: body.actor_type ?? own?.actorType,
    packId: body.pack_id,
  });
  if (checked.kind === "bad") return { kind: "bad", problems: checked.problems.map(toSnakeCase) };
  const { jobId, topic, priority, labels, riskTags, requires, capability, actorId, actorType, packId, input } =
    checked.submission;
  const fields = { topic, priority, labels, riskTags, requires, capability, actorId, actorType, packId, input };
  const request = { jobId: jobId ?? "", org: tenant, ...fields, nowMs: atMs, ...callerIn(body, sender) };
  return { kind: "ok", request };
}

function callerIn(
  { caller: named }: PolicyRequestBody,
  sender?: { readonly id: string; readonly caller: Caller },
): Pick<PolicyRequest, "callerKey" | "caller"> {
  if (named === undefined) return sender === undefined ? {} : { callerKey: sender.id, caller: sender.caller };
  const { key, ...caller } = named;
  return { callerKey: key, caller };
}

/** `riskTags` → `risk_tags`, within backticks only. */
function toSnakeCase(problem: string): string {
  return problem.replace(/`[a-z]+[A-Z]\w*`/g, (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
}
