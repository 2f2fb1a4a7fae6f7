import type { AuditEntry } from "../../../../src/client/schema.ts";

/** The hash of an entry, computed by this browser; null without a secure context, where browsers compute none. */
export async function hashOfEntry({ at, facts, index, kind, prev, what, who }: AuditEntry): Promise<string | null> {
  if (globalThis.crypto?.subtle === undefined) return null;
  const sorted = Object.fromEntries(Object.entries(facts).sort(([a], [b]) => (a < b ? -1 : 1)));
  const text = JSON.stringify({ at: Date.parse(at), facts: sorted, index, kind, prev, what, who });
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
