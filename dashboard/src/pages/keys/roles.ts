import type { CreateKeyRequest } from "../../../../src/client/schema.ts";

export type Role = CreateKeyRequest["role"];

export const ROLES: Readonly<Record<Role, string>> = {
  viewer: "reads everything of its tenant, changes nothing",
  submitter: "reads, submits jobs and starts runs",
  worker: "leases jobs and reports their results",
  operator: "reads and submits; approves, cancels, retries, pauses; reads the audit log",
  admin: "everything of its tenant, including keys and kill switches",
};
