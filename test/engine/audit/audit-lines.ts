/** All audit lines of one kind, chained or pending, as `alice approved`. */

import { AUDIT_PAGES, AUDIT_PENDING, type AuditKind, pendingAuditOf } from "../../../src/core/model/audit.ts";
import { auditPagesOf } from "../../../src/core/model/lists/audit-lists.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import type { Harness } from "../harness.ts";

export async function auditLines(
  harness: Harness,
  engine: Engine,
  kind: AuditKind,
  org = "default",
): Promise<readonly string[]> {
  const { store } = engine.world;
  const all = { limit: 100, order: "oldest" } as const;
  const [pages, pending] = await harness.run(
    Promise.all([
      store.list(AUDIT_PAGES, { index: auditPagesOf(org), ...all }),
      store.list(AUDIT_PENDING, { index: pendingAuditOf(org), ...all }),
    ]),
  );
  const lines = [
    ...pages.items.flatMap(({ value }) => value.entries),
    ...pending.items.flatMap(({ value }) => value.lines),
  ];
  return lines.filter((line) => line.kind === kind).map(({ who, what }) => `${who} ${what}`);
}
