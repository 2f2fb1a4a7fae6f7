import type { BudgetPer } from "../model/budgets/hold.ts";
import type { Caller } from "../model/caller.ts";
import type { Limit } from "./limits/limit.ts";

/** Request and response of the safety kernel. Plain data: it crosses processes and is stored on the job. */
export interface PolicyRequest {
  readonly jobId: string;
  readonly org: string;
  readonly topic: string;
  readonly priority: string;
  readonly capability: string | null;
  readonly riskTags: readonly string[];
  readonly requires: readonly string[];
  /** Includes the labels of an MCP call: `mcp.server`, `mcp.tool`, `mcp.resource`, `mcp.action`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly actorId: string | null;
  readonly actorType: ActorType | null;
  readonly packId: string | null;
  /** The key or bus client of the caller; trusted only with `caller`. */
  readonly callerKey?: string | undefined;
  /** The authenticated submitter; absent if unknown. */
  readonly caller?: Caller | undefined;
  /** The time of the evaluation: `now` in conditions. Absent from callers that do not send it. */
  readonly nowMs?: number | undefined;
  /** The inline input; null if it is stored elsewhere. */
  readonly input: unknown;
  /** Set if the input is not included; size in bytes, 0 if unknown. */
  readonly inputOmitted?: { readonly bytes: number };
}

export type ActorType = "human" | "service";

export const EFFECTS = ["allow", "deny", "require_approval", "throttle", "allow_with_constraints"] as const;
export type Effect = (typeof EFFECTS)[number];

export interface Decision {
  readonly effect: Effect;
  /** Null if the policy's default decided. */
  readonly ruleId: string | null;
  readonly reason: string;
  /** Hash of the policy. */
  readonly snapshot: string;
  /** The time that conditions saw as `now`. Absent in decisions of earlier versions. */
  readonly atMs?: number;
  /** A condition that reads `now` was evaluated: the decision may differ at another time. */
  readonly isTimed?: true;
  /** Shadow rules that would have decided, in document order; at most `SHADOW_MAX`. */
  readonly shadow?: readonly ShadowVerdict[];
  /** With `allow_with_constraints`. */
  readonly constraints?: Constraints;
  /** Alternatives for the submitter. */
  readonly remediations?: readonly Remediation[];
  /** With `require_approval`. */
  readonly approval?: ApprovalTerms;
  /** With `throttle`: when the job is checked again. */
  readonly untilMs?: number;
  /** With decisions that let the job run: what it may spend. */
  readonly budgets?: readonly BudgetTerms[];
  /** Limits of earlier rules, in their order. Applied by the engine, and not stored. */
  readonly limits?: readonly Limit[];
}

/** What a shadow rule would have decided if it were enforced, and no other shadow rule. */
export interface ShadowVerdict {
  readonly ruleId: string;
  readonly effect: Effect;
  /** The condition could not be evaluated, and the rule counts as matching because of that. */
  readonly fault?: string;
}

export const SHADOW_MAX = 8;

/** At least one of `tokens` and `usd`. */
export interface BudgetTerms {
  readonly tokens?: number;
  readonly usd?: number;
  readonly per: BudgetPer;
  /** What a job reserves that does not state its own limit. */
  readonly reserveTokens?: number;
  readonly reserveUsd?: number;
}

export interface ApprovalTerms {
  /** null: the setting `approval.expires_ms`. */
  readonly expiresMs: number | null;
  /** Whether the submitter may approve the job. */
  readonly bySubmitter: boolean;
}

/** Budgets are enforced by the control plane, the rest by the worker. Names follow the wire protocol. */
export interface Constraints {
  readonly budgets?: {
    readonly maxRuntimeMs?: number;
    readonly maxRetries?: number;
    readonly maxArtifactBytes?: number;
    readonly maxConcurrentJobs?: number;
  };
  readonly sandbox?: {
    readonly isolated?: boolean;
    readonly networkAllowlist?: readonly string[];
    readonly fsReadOnly?: readonly string[];
    readonly fsReadWrite?: readonly string[];
  };
  readonly toolchain?: {
    readonly allowedTools?: readonly string[];
    readonly allowedCommands?: readonly string[];
  };
  readonly diff?: {
    readonly maxFiles?: number;
    readonly maxLines?: number;
    readonly denyPathGlobs?: readonly string[];
  };
  readonly redactionLevel?: string;
}

export interface Remediation {
  readonly id: string;
  readonly title: string;
  readonly summary?: string;
  readonly replacementTopic?: string;
  readonly replacementCapability?: string;
  readonly addLabels?: Readonly<Record<string, string>>;
  readonly removeLabels?: readonly string[];
}
