/** Decisions of a draft beside those of the policy in force. */
import type { PolicyRequest, PolicySimulation } from "../../../../src/client/schema.ts";
import { api } from "../../data/session.ts";

export async function simulate(
  policy: string,
  requests: readonly PolicyRequest[],
): Promise<PolicySimulation["decisions"]> {
  const answer = await api.peek().policy.simulate({ policy, requests });
  // The other kind of answer is that to recorded decisions.
  return "decisions" in answer ? answer.decisions : [];
}
