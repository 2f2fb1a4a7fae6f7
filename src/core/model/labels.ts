/** Which step of which run a job is for; on the wire they stand in the environment, too. */
export const STEP_LABELS = ["workflow_id", "run_id", "step_id"] as const;

/**
 * Labels that the control plane alone writes. What they say is believed, by policies and people: a client that writes them
 * would pass off its job as a step of somebody's run, or as sent out unchecked.
 */
export const OUR_LABELS: readonly string[] = [...STEP_LABELS, "safety_bypassed", "safety_bypass_reason"];
