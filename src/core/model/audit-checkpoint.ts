import type { SavedHead } from "./audit.ts";

/**
 * A signed statement about the state of an audit chain. Kept outside of the store, it proves that later entries were appended to
 * the chain as it was: `entries` entries, the last of which has the hash `head`.
 */
export interface CheckpointStatement extends SavedHead {
  readonly format: typeof CHECKPOINT_FORMAT;
  /** `*` for the system chain. */
  readonly tenant: string;
  readonly entries: number;
  /** ISO 8601. */
  readonly at: string;
}

export interface AuditCheckpoint extends CheckpointStatement {
  /** Ed25519 over `checkpointText`, base64. */
  readonly signature: string;
  /** The public key of the signer (PEM). It proves nothing by itself: compare it with a copy. */
  readonly public_key: string;
}

export const CHECKPOINT_FORMAT = "cordum-audit-checkpoint/1";

/** The signed bytes: JSON with sorted keys and no spaces. */
export function checkpointText({ at, entries, format, head, tenant }: CheckpointStatement): string {
  return JSON.stringify({ at, entries, format, head, tenant });
}

/** `null` if the document is not a checkpoint of a known format. */
export function readCheckpoint(document: unknown): AuditCheckpoint | null {
  if (typeof document !== "object" || document === null) return null;
  const { format, tenant, entries, head, at, signature, public_key } = document as Record<string, unknown>;
  const texts = [tenant, head, at, signature, public_key];
  if (format !== CHECKPOINT_FORMAT || texts.some((text) => typeof text !== "string")) return null;
  return Number.isSafeInteger(entries) ? (document as AuditCheckpoint) : null;
}
