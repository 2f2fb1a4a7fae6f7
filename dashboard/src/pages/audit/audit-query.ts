/** The filter of the audit log, as the address has it. */
import { param } from "../../data/location.ts";

export const FILTERS = ["job", "actor", "action", "since"] as const;

export interface AuditQuery {
  readonly job: string | undefined;
  readonly actor: string | undefined;
  readonly action: string | undefined;
  readonly since: string | undefined;
  /** The log of what affects all tenants. */
  readonly system: true | undefined;
}

export function auditQuery(): AuditQuery {
  const [job, actor, action, since] = FILTERS.map((name) => param(name) || undefined);
  return { job, actor, action, since, system: isSystem() || undefined };
}

export const isSystem = (): boolean => param("log") === "system";

/** Flags of `cordum audit list`. */
export function auditFlags({ system, ...filter }: AuditQuery): readonly string[] {
  const flags = Object.entries(filter).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value]));
  return system ? ["--system", ...flags] : flags;
}
