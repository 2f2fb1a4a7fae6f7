/** `POST /policy/test`: runs the test cases of a policy. */
import { type Static, Type } from "typebox";
import type { PolicyCase } from "../../core/policy/read-tests.ts";
import type { PreparedCase, TestedCase } from "../../core/policy/test-policy.ts";
import { evaluationProblem, Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok } from "../route.ts";
import { POLICY_DECISION } from "../views/policy-schemas.ts";
import { decisionView } from "../views/policy-views.ts";
import { TEXT_OR_NULL } from "../views/schemas.ts";
import { evaluated, requirePublisher, toPolicyRequest } from "./evaluation.ts";

export const TESTS_TEXT = Type.String({ minLength: 1, description: "Test cases, as YAML." });

export const TEST = Type.Object({
  policy: Type.Optional(Type.String({ minLength: 1, description: "The policy as YAML. Default: the one in force." })),
  tests: TESTS_TEXT,
});

export const POLICY_TESTS = Type.Object(
  {
    snapshot: Type.String({ description: "Hash of the policy that was tested." }),
    passed: Type.Integer(),
    failed: Type.Integer(),
    cases: Type.Array(
      Type.Object(
        {
          name: Type.String(),
          line: Type.Integer({ description: "Of the case in the text." }),
          passed: Type.Boolean(),
          failure: TEXT_OR_NULL,
          decision: POLICY_DECISION,
        },
        { title: "PolicyTestCase" },
      ),
    ),
  },
  { title: "PolicyTests" },
);

export async function testOne(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { policy = null, tests } = request.body as Static<typeof TEST>;
  if (policy !== null) requirePublisher(request);
  const { snapshot, tested } = await runTests(gateway, request, policy, tests);
  return ok(testsView(snapshot, tested));
}

/** Throws unless all cases pass. Returns their number. */
export async function requireTests(
  gateway: Gateway,
  request: GatewayRequest,
  policy: string,
  tests: string,
): Promise<number> {
  const { tested } = await runTests(gateway, request, policy, tests);
  const failures = tested.filter(({ failure }) => failure !== null).map(failureText);
  if (failures.length === 0) return tested.length;
  const shown = failures.slice(0, FAILURES_SHOWN);
  const more = failures.length > shown.length ? `; and ${failures.length - shown.length} more` : "";
  throw new Problem("policy_tests_failed", `${shown.join("; ")}${more}`, { problems: failures });
}

async function runTests(
  { engine }: Gateway,
  request: GatewayRequest,
  text: string | null,
  tests: string,
): Promise<{ readonly snapshot: string; readonly tested: readonly TestedCase[] }> {
  const { evaluator } = engine.world;
  const read = await evaluator.run(request.org, "readPolicyTests", { name: "tests", text: tests });
  if (read.kind !== "answered") throw evaluationProblem(read);
  if (read.answer.kind === "bad") {
    throw new Problem("invalid_policy_tests", read.answer.problems.join("; "), { problems: read.answer.problems });
  }
  const cases = read.answer.value.map((one) =>
    prepared(one, (given) => toPolicyRequest(engine, request, given, false)),
  );
  const inForce = engine.kernel.inForce.snapshot.document;
  return evaluated(evaluator.run(request.org, "testPolicy", { text, inForce, cases }));
}

/** Throws a `Problem` with the line of the case if its request is invalid. */
function prepared(
  { given, ...one }: PolicyCase,
  requestOf: (given: PolicyCase["given"]) => PreparedCase["request"],
): PreparedCase {
  try {
    return { ...one, request: requestOf(given), isTimeGiven: given.now !== undefined };
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== "invalid_request") throw error;
    const problem = `tests:${one.line}: ${error.message}`;
    throw new Problem("invalid_policy_tests", problem, { problems: [problem] });
  }
}

const failureText = ({ name, line, failure }: TestedCase): string => `line ${line}, \`${name}\`: ${failure}`;

export function testsView(snapshot: string, tested: readonly TestedCase[]): object {
  const failed = tested.filter(({ failure }) => failure !== null).length;
  return {
    snapshot,
    passed: tested.length - failed,
    failed,
    cases: tested.map(({ name, line, decision, failure }) => ({
      name,
      line,
      passed: failure === null,
      failure,
      decision: decisionView(decision),
    })),
  };
}

const FAILURES_SHOWN = 10;
