import { fitsWithin } from "./json.ts";
import type { Count, CounterName } from "./table.ts";

/**
 * Quotas of one tenant that are counted by the store. Both counters follow from the records, so that they change in the
 * commit that creates, moves or removes a record.
 */
export const OPEN_JOBS_GROUP = "open_jobs";
/** Jobs of a tenant that have not ended. Most of them wait: for a worker, a retry, the safety kernel or an approval. */
export const openJobsOf = (org: string): CounterName => ({ group: OPEN_JOBS_GROUP, name: org });

const STORED_GROUP = "stored_bytes";
/** Bytes of the counted payloads of a tenant. */
export const storedBytesOf = (org: string): CounterName => ({ group: STORED_GROUP, name: org });

/** The counters of a job, with what it adds to the quotas of its tenant. */
export function withQuotas(
  counters: readonly Count[],
  org: string,
  isOpen: boolean,
  bytes: number | undefined,
): readonly Count[] {
  if (!isOpen && bytes === undefined) return counters;
  const all: Count[] = [...counters];
  if (isOpen) all.push(openJobsOf(org));
  if (bytes !== undefined) all.push({ ...storedBytesOf(org), by: bytes });
  return all;
}

export type QuotaName = "backlogMax" | "storedBytesMax" | "streamsMax" | "polledTopicsMax" | "schedulesMax";

interface QuotaSettings {
  readonly limits: Readonly<Record<QuotaName, number>>;
  readonly orgs: Readonly<Record<string, { readonly limits?: Partial<Record<QuotaName, number>> }>>;
}

export const quotaOf = ({ orgs, limits }: QuotaSettings, org: string, name: QuotaName): number =>
  orgs[org]?.limits?.[name] ?? limits[name];

/** Smaller payloads are not counted: nearly all jobs have only such, and their number is limited by the rate. */
export const COUNTED_BYTES_MIN = 4 * 1024;

/** What a payload adds to the stored bytes of its tenant. */
export function countedBytes(payload: CountedPayload | null): number {
  if (payload === null) return 0;
  if (payload.kind === "inline" && fitsWithin(payload.value, COUNTED_BYTES_MIN)) return 0;
  const bytes = payload.kind === "inline" ? Buffer.byteLength(JSON.stringify(payload.value ?? null)) : payload.bytes;
  return bytes < COUNTED_BYTES_MIN ? 0 : bytes;
}

type CountedPayload =
  | { readonly kind: "inline"; readonly value: unknown }
  | { readonly kind: "pointer"; readonly bytes: number };
