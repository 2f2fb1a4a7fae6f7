import type { ActorType } from "../policy/decision.ts";
import { type ApiKey, EVERY_ORG } from "./api-key.ts";

/**
 * The authenticated submitter of a job or run, besides its key (`submittedBy`). Taken at intake and stored, so that
 * later checks see the same caller as the first one. Absent if the submitter is not authenticated.
 */
export interface Caller {
  /** The role of the key; absent for clients of the bus. */
  readonly role?: string;
  /** The name of the key, or the sender that signed the packet. */
  readonly name?: string;
  /** Absent if it is the tenant of the job. */
  readonly tenant?: string;
  /** The owner of the key. */
  readonly person?: string;
  /** The only actor that the key submits for. */
  readonly actorId?: string;
  readonly actorType?: ActorType;
}

export function callerOf({ org, role, name, person, actorId, actorType }: ApiKey): Caller {
  const caller: { -readonly [K in keyof Caller]: Caller[K] } = { role };
  if (org === EVERY_ORG) caller.tenant = org;
  if (name !== null) caller.name = name;
  if (person !== undefined) caller.person = person;
  if (actorId !== undefined) caller.actorId = actorId;
  if (actorType !== undefined) caller.actorType = actorType;
  return caller;
}
