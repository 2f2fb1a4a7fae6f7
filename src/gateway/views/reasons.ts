/** Why a record is in its state, and what changes it. */
import { Type } from "typebox";
import { orNull, TEXT_OR_NULL } from "./schemas.ts";

export const REASON = Type.Object({
  reason: Type.String(),
  until: TEXT_OR_NULL,
  unblocks: orNull(Type.String({ description: "A command." })),
});

export interface Reason {
  readonly reason: string;
  readonly untilMs?: number | null;
  /** A command. */
  readonly unblocks?: string | null;
}

export const reasonView = ({ reason, untilMs = null, unblocks = null }: Reason) => ({
  reason,
  until: untilMs === null ? null : new Date(untilMs).toISOString(),
  unblocks,
});
