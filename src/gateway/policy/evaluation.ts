/** What the routes that evaluate a policy have in common. */
import { EVERY_ORG } from "../../core/model/api-key.ts";
import type { PolicyRequest } from "../../core/policy/decision.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Busy } from "../../ports/evaluator.ts";
import { isAllowed } from "../auth/access.ts";
import { evaluationProblem, Problem } from "../problem.ts";
import type { GatewayRequest } from "../route.ts";
import { type PolicyRequestBody, readPolicyRequest } from "../routes/policy-request.ts";

/** Compiling a policy is expensive: only roles that may publish one may send one. */
export function requirePublisher(request: GatewayRequest): void {
  if (isPublisher(request)) return;
  const detail = "evaluating a policy text requires a key of tenant `*` with role `admin`, like publishing it";
  throw new Problem("forbidden", `${detail}; omit \`policy\` to evaluate the policy in force`);
}

export const isPublisher = ({ principal }: GatewayRequest): boolean => isAllowed(principal, { access: "system" });

/** `sender`: whether the caller of the request is the submitter if the body names none. */
export function toPolicyRequest(
  engine: Engine,
  { org, principal }: GatewayRequest,
  body: PolicyRequestBody,
  hasSender = true,
): PolicyRequest {
  const { tenant_id: tenant = org } = body;
  if (tenant !== org && principal.org !== EVERY_ORG) {
    throw new Problem("tenant_forbidden", `this key is limited to tenant \`${org}\`; omit \`tenant_id\``);
  }
  const read = readPolicyRequest(body, org, engine.world.clock.now(), hasSender ? principal : undefined);
  if (read.kind === "ok") return omitLargeInput(read.request, engine.settings.current.limits.inlineBytesMax);
  throw new Problem("invalid_request", read.problems.join("; "), { problems: read.problems });
}

/** Like for jobs, an input that is too large to be stored inline is omitted. */
function omitLargeInput(request: PolicyRequest, inlineBytesMax: number): PolicyRequest {
  const { length: bytes } = new TextEncoder().encode(JSON.stringify(request.input) ?? "");
  return bytes <= inlineBytesMax ? request : { ...request, input: null, inputOmitted: { bytes } };
}

/** The answer of the evaluator. */
export async function evaluated<A extends { readonly kind: "ok" }>(running: Promise<Outcome<A>>): Promise<A> {
  const outcome = await running;
  if (outcome.kind !== "answered") throw evaluationProblem(outcome);
  const { answer } = outcome;
  if (answer.kind === "ok") return answer;
  throw invalidPolicy(answer.problems);
}

type Outcome<A> =
  | { readonly kind: "answered"; readonly answer: A | { readonly kind: "bad"; readonly problems: readonly string[] } }
  | { readonly kind: "over"; readonly why: string }
  | Busy;

export function invalidPolicy(problems: readonly string[]): Problem {
  return new Problem("invalid_policy", problems.join("; "), { problems });
}
