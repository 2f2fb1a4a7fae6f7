import type { Packet } from "../../protocol/packet.ts";
import type { Settings } from "../settings.ts";

/**
 * For which tenants whoever sent a packet may submit.
 *
 * 1. Anybody on the bus can write any tenant's name into a packet. Who has signed it speaks for the tenants that its
 *    entry names, everybody else for `cap.unsigned_tenants`.
 * 2. Our own signature gives no tenant. Our processes announce jobs that stand in the store and bring none; and work that
 *    one of them has signed for a worker must not become a new job when somebody puts it on another subject.
 *
 * Null where it may; else why not, and what to do.
 */
export function claimRefusal(
  { origin }: Packet,
  org: string,
  { unsignedTenants, senders }: Pick<Settings, "unsignedTenants" | "senders">,
): string | null {
  const sender = origin?.kind === "arrived" ? origin.signedBy : null;
  if (sender !== null) {
    if (senders[sender]?.tenants.includes(org)) return null;
    return `sender \`${sender}\` may not speak for tenant \`${org}\`; add the tenant to \`cap.senders.${sender}.tenants\``;
  }
  if (unsignedTenants.includes(org)) return null;
  return (
    `an unsigned packet may not speak for tenant \`${org}\`; submit over HTTP with a key of the tenant, sign the packet ` +
    "(see `cap.signatures`), or add the tenant to `cap.unsigned_tenants`"
  );
}
