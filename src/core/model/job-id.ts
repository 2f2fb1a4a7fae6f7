/**
 * Job ids.
 *
 * 1. Clients choose ids within their tenant. The record, the bus and workers use the wire id, which is unique across
 *    tenants: in tenant `default` the id itself, in others `<tenant>~<id>`. `~` occurs in no tenant and no id that a client
 *    may choose, so the mapping is one to one, and an id that another tenant uses is free.
 * 2. Ids of step jobs, such as `<run id>:<step>@<n>`, contain a random run id. Clients may not choose that form; it is not scoped.
 * 3. Every look-up by a client's id maps it here and compares the tenant of the record it finds.
 */
export const DEFAULT_ORG = "default";

/** The wire id; an id that is one already is returned as it is. */
export const wireJobId = (org: string, id: string): string =>
  org === DEFAULT_ORG || id.includes(SEPARATOR) || isStepJobId(id) ? id : org + SEPARATOR + id;

/** The id within the tenant. Records of earlier versions have the client's id in every tenant. */
export function clientJobId(org: string, id: string): string {
  const head = org + SEPARATOR;
  return id.startsWith(head) ? id.slice(head.length) : id;
}

export const isStepJobId = (id: string): boolean => /:[A-Za-z0-9_-]+(\.\d+)?(\.undo)?@\d+$/.test(id);

const SEPARATOR = "~";
