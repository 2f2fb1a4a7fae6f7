/** What the safety kernel is asked, and what it answers. Plain data: it crosses processes and stands on the job. */
export interface PolicyRequest {
  readonly jobId: string;
  readonly org: string;
  readonly topic: string;
  readonly priority: string;
  readonly capability: string | null;
  readonly riskTags: readonly string[];
  readonly requires: readonly string[];
  /** With those of an MCP call: `mcp.server`, `mcp.tool`, `mcp.resource`, `mcp.action`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly actorId: string | null;
  readonly actorType: ActorType | null;
  readonly packId: string | null;
  /** The input itself where it is small enough to travel with the record; null where it is elsewhere. */
  readonly input: unknown;
  /** There is an input, but not here: nothing can be said about it. Its size, 0 where that is not known. */
  readonly inputOmitted?: { readonly bytes: number };
}

export type ActorType = "human" | "service";

export const EFFECTS = ["allow", "deny", "require_approval", "throttle", "allow_with_constraints"] as const;
export type Effect = (typeof EFFECTS)[number];

export interface Decision {
  readonly effect: Effect;
  /** The rule that decided; null when the policy's default did. */
  readonly ruleId: string | null;
  readonly reason: string;
  /** Hash of the policy that decided. */
  readonly snapshot: string;
  /** With `allow_with_constraints`: what the work must keep to. */
  readonly constraints?: Constraints;
  /** What the submitter could do instead. */
  readonly remediations?: readonly Remediation[];
  /** With `require_approval`: how it may be given. */
  readonly approval?: ApprovalTerms;
}

export interface ApprovalTerms {
  /** How long the approval is waited for; null for the setting `approval.expires_ms`. */
  readonly expiresMs: number | null;
  /** Whether whoever submitted the job may approve it as well. */
  readonly bySubmitter: boolean;
}

/** The control plane keeps to the budgets itself; the rest goes to the worker. Names are those of the wire protocol. */
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
