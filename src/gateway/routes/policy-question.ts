/** A job as far as a policy looks at it, as clients write it; checked as the job itself would be. */
import { type Static, type TSchema, Type } from "typebox";
import { checkSubmission } from "../../core/jobs/submission.ts";
import type { PolicyRequest } from "../../core/policy/decision.ts";
import { isTenant } from "../auth/access.ts";

const optional = <T extends TSchema>(type: T) => Type.Optional(type);
const words = Type.Array(Type.String());

export const QUESTION = Type.Object({
  topic: Type.String(),
  tenant_id: optional(Type.String({ description: "Another tenant than the caller's; takes a key of tenant `*`." })),
  job_id: optional(Type.String()),
  priority: optional(Type.String()),
  capability: optional(Type.String()),
  risk_tags: optional(words),
  requires: optional(words),
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
  input: optional(Type.Unknown()),
});

export type Question = Static<typeof QUESTION>;

export type ReadQuestion =
  | { readonly kind: "ok"; readonly request: PolicyRequest }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

export function readQuestion(question: Question, org: string): ReadQuestion {
  const { tenant_id: tenant = org, mcp = {} } = question;
  if (!isTenant(tenant)) {
    return { kind: "bad", problems: ["`tenant_id` must be 1 to 64 letters, digits, `_` or `-`"] };
  }
  const called = Object.entries(mcp).map(([part, name]) => [`mcp.${part}`, name]);
  const checked = checkSubmission({
    org: tenant,
    topic: question.topic,
    input: question.input,
    jobId: question.job_id,
    priority: question.priority,
    labels: { ...question.labels, ...Object.fromEntries(called) },
    riskTags: question.risk_tags,
    requires: question.requires,
    capability: question.capability,
    actorId: question.actor_id,
    actorType: question.actor_type,
    packId: question.pack_id,
  });
  if (checked.kind === "bad") return { kind: "bad", problems: checked.problems.map(inDialect) };
  const { jobId, topic, priority, labels, riskTags, requires, capability, actorId, actorType, packId, input } =
    checked.submission;
  const asked = { topic, priority, labels, riskTags, requires, capability, actorId, actorType, packId, input };
  return { kind: "ok", request: { jobId: jobId ?? "", org: tenant, ...asked } };
}

/** `riskTags` → `risk_tags`, between backticks only. */
function inDialect(problem: string): string {
  return problem.replace(/`[a-z]+[A-Z]\w*`/g, (name) =>
    name.replace(/[A-Z]/g, (deadLetter) => `_${deadLetter.toLowerCase()}`),
  );
}
