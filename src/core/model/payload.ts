import { createHash } from "node:crypto";
import type { Payload } from "./job.ts";

/**
 * Stored payloads.
 *
 * 1. The control plane alone forms their keys: `cordum:payload:<tenant>/<job|run>/<id>/<sha256>`. `/` occurs in no tenant
 *    and no id, so no chosen id spells the key of another record.
 * 2. The key contains the digest of the bytes, and the blob store never replaces bytes: a payload is immutable. Equal
 *    payloads of one record share a key; those of two records do not, so a record is removed with its payloads.
 * 3. The digest is on the record when the policy or a person decides, and every read compares the bytes with it (L59).
 */
export interface PayloadOwner {
  readonly org: string;
  readonly kind: "job" | "run";
  readonly id: string;
}

export type StoredPayload = Extract<Payload, { kind: "pointer" }>;

export const payloadKey = ({ org, kind, id }: PayloadOwner, sha256: string): string =>
  `${PREFIX}${org}/${kind}/${id}/${sha256}`;

export const sha256Of = (content: Uint8Array | string): string => createHash("sha256").update(content).digest("hex");

/** The digest in the key of a stored payload; null for other keys. */
export const digestIn = (key: string): string | null =>
  key.startsWith(PREFIX) ? (/\/([0-9a-f]{64})$/.exec(key)?.[1] ?? null) : null;

/** Whether the name belongs to the control plane. */
export const isInternalKey = (key: string): boolean => key.startsWith("cordum:");

/** Whether a pointer of the wire protocol names such a key, with any scheme or host before it. */
export const isInternalPointer = (pointer: string): boolean =>
  isInternalKey(pointer.replace(/^redis:\/\//, "")) || pointer.includes(PREFIX);

export type PayloadFault = "missing" | "damaged";

/** `what` names the payload and its record, such as "the input of job `a`". */
export const payloadFaultText = (what: string, fault: PayloadFault): string =>
  fault === "missing" ? `${what} is missing in the blob store` : `${what} is damaged: its digest has changed`;

/** Payloads are JSON. Third-party workers write results themselves; other bytes count as text. */
export function payloadValue(bytes: Uint8Array): unknown {
  const text = new TextDecoder().decode(bytes);
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const PREFIX = "cordum:payload:";
