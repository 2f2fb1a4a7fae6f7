/** Response schemas of the policy routes, in the key names of the policy file. */
import { type TSchema, Type } from "typebox";
import { EFFECTS, SHADOW_MAX } from "../../core/policy/decision.ts";
import { KEY_NAME } from "./key-names.ts";
import { CONSTRAINTS, instant, TEXT_OR_NULL } from "./schemas.ts";

const EFFECT = Type.Enum([...EFFECTS], { title: "PolicyEffect" });
export const DECISION_NAME = Type.Enum(
  EFFECTS.map((effect) => effect.toUpperCase()),
  { title: "PolicyDecisionName" },
);
const names = Type.Optional(Type.Array(Type.String()));
const optionalText = Type.Optional(Type.String());

const REMEDIATION = Type.Object(
  {
    id: Type.String(),
    title: Type.String(),
    summary: optionalText,
    replacement_topic: optionalText,
    replacement_capability: optionalText,
    add_labels: Type.Optional(Type.Record(Type.String(), Type.String())),
    remove_labels: names,
  },
  { title: "PolicyRemediation" },
);
const APPROVAL = Type.Object(
  {
    expires_ms: Type.Union([Type.Integer(), Type.Null()], { description: "null: the setting `approval.expires_ms`." }),
    by_submitter: Type.Boolean(),
  },
  { title: "ApprovalTerms" },
);
const LIMIT = Type.Object(
  {
    rule_id: Type.String(),
    kind: Type.Enum(["throttle", "velocity"]),
    by: Type.String({ description: "`tenant`, `topic`, `caller` or `label:NAME`." }),
    key: Type.String({ description: "The value of `by`; each tenant has its own." }),
    max: Type.Number(),
    within_ms: Type.Integer(),
    amount: Type.Number({ description: "What the request adds." }),
    used: Type.Optional(
      Type.Number({
        description:
          "Without this request. In simulations, by the requests before it. Absent where nothing is counted.",
      }),
    ),
  },
  { title: "PolicyLimit" },
);
const BY = Type.String({ description: "`tenant`, `topic`, `caller` or `label:NAME`." });
const THROTTLE = Type.Object({ rate: Type.String(), by: BY }, { title: "ThrottleTerms" });
const VELOCITY = Type.Object(
  { max: Type.Number(), within: Type.String(), by: BY, sum: optionalText },
  { title: "VelocityTerms" },
);
const BUDGETS = Type.Optional(
  Type.Array(
    Type.Object(
      {
        tokens: Type.Optional(Type.Integer()),
        usd: Type.Optional(Type.Number()),
        per: Type.String({ description: "`job`, `run`, `tenant`, `day` or `label:NAME`." }),
        reserve_tokens: Type.Optional(Type.Integer()),
        reserve_usd: Type.Optional(Type.Number()),
      },
      { title: "BudgetTerms" },
    ),
    { description: "What the jobs of the rule may spend; each must have room." },
  ),
);
const TERMS = {
  constraints: Type.Optional(CONSTRAINTS),
  remediations: Type.Optional(Type.Array(REMEDIATION)),
  approval: Type.Optional(APPROVAL),
};
export const EVALUATION_FIELDS = {
  evaluated_at: Type.Optional(instant("The time of the evaluation: `now` in conditions.")),
  time_dependent: Type.Optional(
    Type.Boolean({ description: "A condition that reads `now` was evaluated; absent if not." }),
  ),
  shadow: Type.Optional(
    Type.Array(
      Type.Object({
        rule_id: Type.String(),
        decision: DECISION_NAME,
        fault: Type.Optional(Type.String({ description: "Why the condition could not be evaluated." })),
      }),
      { maxItems: SHADOW_MAX, description: "The shadow rules that would have decided instead." },
    ),
  ),
};
const DECISION_FIELDS = {
  decision: DECISION_NAME,
  rule_id: TEXT_OR_NULL,
  reason: Type.String(),
  snapshot: Type.String({ description: "Hash of the policy." }),
  ...EVALUATION_FIELDS,
  ...TERMS,
  budgets: BUDGETS,
  until: Type.Optional(instant("With `THROTTLE`: the next slot of the rate.")),
  limits: Type.Optional(
    Type.Array(LIMIT, { description: "Limits of earlier rules, in their order: the request counts for each of them." }),
  ),
};
export const POLICY_DECISION = Type.Object(DECISION_FIELDS, { title: "PolicyDecision" });
export const POLICY_EXPLANATION = Type.Object(
  {
    ...DECISION_FIELDS,
    tried: Type.Array(
      Type.Object({
        rule_id: Type.String(),
        mismatches: Type.Array(Type.Object({ part: Type.String(), text: Type.String() })),
      }),
      { description: "The rules before the deciding one, and why they did not match." },
    ),
    omitted: Type.Integer({ description: "Number of earlier rules that `tried` does not list." }),
  },
  { title: "PolicyExplanation" },
);
export const POLICY_SIMULATION = Type.Object(
  {
    snapshot: Type.String(),
    decisions: Type.Array(Type.Object({ ...DECISION_FIELDS, in_force: Type.Optional(DECISION_NAME) }), {
      description: "In the order of the requests; `in_force` is the decision of the policy in force.",
    }),
    by_decision: Type.Record(Type.String(), Type.Integer()),
    by_rule: Type.Array(Type.Object({ rule_id: TEXT_OR_NULL, count: Type.Integer() })),
    changed: Type.Optional(Type.Integer({ description: "Decisions that differ from the policy in force." })),
  },
  { title: "PolicySimulation" },
);

const RULE_FIELDS = {
  id: Type.String(),
  match: Type.Object({
    tenants: names,
    topics: names,
    capabilities: names,
    risk_tags: names,
    requires: names,
    actor_ids: names,
    actor_types: names,
    pack_ids: names,
    labels: Type.Optional(Type.Record(Type.String(), Type.String())),
    mcp: Type.Optional(Type.Object({ servers: names, tools: names, resources: names, actions: names })),
    when: optionalText,
  }),
  decision: EFFECT,
  reason: Type.String(),
  shadow: Type.Optional(Type.Boolean({ description: "Evaluated and recorded, not enforced." })),
  ...TERMS,
  throttle: Type.Optional(THROTTLE),
  velocity: Type.Optional(VELOCITY),
  budget: BUDGETS,
};
const RULE = Type.Object({ position: Type.Integer(), ...RULE_FIELDS }, { title: "PolicyRule" });
const RULE_TERMS = Type.Object(RULE_FIELDS, { title: "PolicyRuleTerms" });

const change = (schema: TSchema) => Type.Union([Type.Object({ before: schema, after: schema }), Type.Null()]);
export const POLICY_DIFF = Type.Object(
  {
    before: Type.String({ description: "Hash of the policy in force." }),
    after: Type.String(),
    version: change(TEXT_OR_NULL),
    default_decision: change(EFFECT),
    rules: Type.Array(
      Type.Object({
        kind: Type.Enum(["removed", "added", "changed", "moved"]),
        rule_id: Type.String(),
        position: Type.Optional(Type.Integer({ description: "Of `removed` and `added`, from 1." })),
        parts: Type.Optional(Type.Array(Type.String(), { description: "Of `changed`, such as `match.risk_tags`." })),
        from: Type.Optional(Type.Integer({ description: "Of `moved`." })),
        to: Type.Optional(Type.Integer({ description: "Of `moved`." })),
        before: Type.Optional(RULE_TERMS),
        after: Type.Optional(RULE_TERMS),
      }),
    ),
  },
  { title: "PolicyDiff" },
);
export const POLICY_TEXT_IN_FORCE = Type.Object(
  {
    snapshot: Type.String(),
    source: Type.String(),
    release_id: Type.Union([Type.String(), Type.Null()], { description: "Null if the policy was never published." }),
    policy: Type.String({
      description: "The published YAML; of a policy that was never published, its rules as YAML.",
    }),
  },
  { title: "PolicyText" },
);
export const POLICY_CHANGE = Type.Object(
  {
    snapshot: Type.String(),
    previous: TEXT_OR_NULL,
    changed: Type.Boolean({ description: "False if the policy was already in force." }),
    release_id: Type.Optional(Type.String({ description: "If the policy changed." })),
  },
  { title: "PolicyChange" },
);

const RELEASE_FIELDS = {
  snapshot: Type.String(),
  name: Type.String(),
  version: TEXT_OR_NULL,
  rules: Type.Integer({ description: "Number of rules." }),
  by: Type.String({ description: "The id of a key, or the file that the process read." }),
  by_name: KEY_NAME,
  at: instant("When it was published."),
  note: TEXT_OR_NULL,
  in_force: Type.Boolean(),
};
export const POLICY_RELEASE = Type.Object({ release_id: Type.String(), ...RELEASE_FIELDS }, { title: "PolicyRelease" });
const BUNDLE_FIELDS = { bundle_id: Type.String({ description: "The id of the release." }), ...RELEASE_FIELDS };
export const POLICY_BUNDLE = Type.Object(BUNDLE_FIELDS, { title: "PolicyBundle" });
export const POLICY_BUNDLE_DETAIL = Type.Object(
  { ...BUNDLE_FIELDS, policy: Type.String({ description: "The published YAML." }) },
  { title: "PolicyBundleDetail" },
);

export const POLICY_RULES = Type.Object(
  {
    snapshot: Type.String(),
    source: Type.String(),
    version: TEXT_OR_NULL,
    default_decision: EFFECT,
    items: Type.Array(RULE),
    next_cursor: Type.Null(),
  },
  { title: "PolicyRules" },
);
