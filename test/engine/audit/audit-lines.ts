/** All audit lines of one kind, chained or pending. */

import {
  AUDIT_PAGES,
  AUDIT_PENDING,
  type AuditKind,
  pendingAuditOf,
  type StampedLine,
} from "../../../src/core/model/audit.ts";
import { auditPagesOf } from "../../../src/core/model/lists/audit-lists.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import type { Harness } from "../harness.ts";

/** As `alice approved`. */
export async function auditLines(
  harness: Harness,
  engine: Engine,
  kind: AuditKind,
  org = "default",
): Promise<readonly string[]> {
  return (await stampedLines(harness, engine, kind, org)).map(({ who, what }) => `${who} ${what}`);
}

export async function stampedLines(
  harness: Harness,
  engine: Engine,
  kind: AuditKind,
  org = "default",
): Promise<readonly StampedLine[]> {
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
  return lines.filter((line) => line.kind === kind);
}
