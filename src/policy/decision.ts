/** What the safety kernel is asked, and what it answers. Plain data: it crosses processes and stands on the job. */
export interface PolicyRequest {
  readonly jobId: string;
  readonly org: string;
  readonly topic: string;
  readonly capability: string | null;
  readonly riskTags: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly actorId: string | null;
}

export interface Decision {
  readonly effect: "allow" | "deny";
  /** The rule that decided; null when the policy's default did. */
  readonly ruleId: string | null;
  readonly reason: string;
  /** Hash of the policy that decided. */
  readonly snapshot: string;
}
