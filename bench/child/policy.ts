// Policy checks per second, Cordum and Cedar, in this process and with the same requests.

import { preparsePolicySet, statefulIsAuthorized } from "@cedar-policy/cedar-wasm/nodejs";
import { compile } from "../../src/core/policy/compile.ts";
import type { PolicyRequest } from "../../src/core/policy/decision.ts";
import { evaluate } from "../../src/core/policy/evaluate.ts";
import { cedarOf, policyOf, requestsOf } from "./policy-rules.ts";
import type { PolicyFigures, PolicyTask } from "./task.ts";

type Check = (request: PolicyRequest) => "allow" | "deny";

export async function runPolicy(task: PolicyTask): Promise<PolicyFigures> {
  const requests = requestsOf(task.rules);
  const check = task.peer === "cordum" ? cordumCheck(task.rules) : cedarCheck(task.rules);
  const answers = requests.map(check);
  repeat(check, requests, task.warmMs);
  return { ...repeat(check, requests, task.measureMs), answers };
}

function cordumCheck(rules: number): Check {
  const snapshot = compile(policyOf(rules));
  return (request) => (evaluate(snapshot, request).effect === "allow" ? "allow" : "deny");
}

function cedarCheck(rules: number): Check {
  const parsed = preparsePolicySet("measured", { staticPolicies: cedarOf(policyOf(rules)) });
  if (parsed.type === "failure") throw new Error(`Cedar rejects the policy: ${JSON.stringify(parsed.errors[0])}`);
  return ({ org, topic, labels, input }) => {
    const answer = statefulIsAuthorized({
      principal: { type: "Tenant", id: org },
      action: { type: "Action", id: "submit" },
      resource: { type: "Topic", id: topic },
      context: { topic, labels: { ...labels }, input: input as { amount: number } },
      preparsedPolicySetId: "measured",
      entities: [],
    });
    if (answer.type === "failure") throw new Error(`Cedar failed a check: ${JSON.stringify(answer.errors[0])}`);
    return answer.response.decision;
  };
}

/** Repeats all requests until the time is up. */
function repeat(check: Check, requests: readonly PolicyRequest[], forMs: number): Omit<PolicyFigures, "answers"> {
  const cpuBefore = process.cpuUsage();
  const beganMs = performance.now();
  let allowed = 0;
  let checks = 0;
  let tookMs = 0;
  do {
    // The result is used, so that the compiler cannot drop the call.
    for (const request of requests) if (check(request) === "allow") allowed += 1;
    checks += requests.length;
    tookMs = performance.now() - beganMs;
  } while (tookMs < forMs);
  if (allowed === 0) throw new Error("no request was allowed: the requests do not match the policy");
  const cpu = process.cpuUsage(cpuBefore);
  return { checks, seconds: tookMs / 1_000, cpuUs: cpu.user + cpu.system };
}
