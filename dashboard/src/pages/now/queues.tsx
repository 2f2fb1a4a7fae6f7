/** Backlogs by topic and tenant, and the background loops of the process. */
import type { Overview } from "../../../../src/client/schema.ts";
import { href } from "../../data/location.ts";
import { chooseTenant, who } from "../../data/session.ts";
import { Section } from "../../kit/layout.tsx";
import { count, duration } from "../../kit/numbers.ts";
import { Empty } from "../../kit/state.tsx";
import { type Column, Table } from "../../kit/table.tsx";

const age = (ms: number | null) => (ms === null ? <span class="soft">–</span> : duration(ms));

const TOPICS: readonly Column<Overview["topics"][number]>[] = [
  {
    name: "Topic",
    width: "minmax(8rem, 2fr)",
    cell: ({ topic }) => <a href={href("/jobs", { state: "SCHEDULED", topic })}>{topic}</a>,
  },
  { name: "Queued", width: "5rem", align: "end", cell: ({ backlog }) => count(backlog) },
  { name: "Oldest", width: "6rem", align: "end", cell: ({ oldest_ms }) => age(oldest_ms) },
];

const TENANTS: readonly Column<Overview["tenants"][number]>[] = [
  { name: "Tenant", width: "minmax(8rem, 2fr)", cell: ({ tenant }) => <TenantName tenant={tenant} /> },
  { name: "Queued", width: "5rem", align: "end", cell: ({ backlog }) => count(backlog) },
  { name: "Oldest", width: "6rem", align: "end", cell: ({ oldest_ms }) => age(oldest_ms) },
];

const DUTIES: readonly Column<readonly [string, number]>[] = [
  { name: "Loop", width: "minmax(8rem, 2fr)", cell: ([name]) => name.replaceAll("_", " ") },
  {
    name: "Behind",
    width: "6rem",
    align: "end",
    cell: ([, ms]) => <span class={ms > LATE_MS ? "tone-bad" : ""}>{duration(ms)}</span>,
  },
];

type Budget = Overview["budgets"][number];

const BUDGETS: readonly Column<Budget>[] = [
  { name: "Rule", width: "minmax(8rem, 2fr)", cell: ({ rule_id }) => rule_id },
  { name: "Per", width: "minmax(6rem, 1fr)", cell: ({ per, key }) => (key === "" ? per : `${per} ${key}`) },
  { name: "Tenant", width: "minmax(6rem, 1fr)", cell: ({ tenant }) => tenant },
  { name: "Left", width: "minmax(10rem, 1fr)", align: "end", cell: (budget) => leftOf(budget) },
  {
    name: "Used",
    width: "5rem",
    align: "end",
    cell: ({ share }) => (
      <span class={share >= 1 ? "tone-bad" : share >= NEARLY_USED ? "tone-warn" : ""}>{Math.round(share * 100)} %</span>
    ),
  },
];

/** Budgets of the policy; none are shown without rules that have one. */
export function Budgets({ of }: { readonly of: Overview }) {
  if (of.budgets.length === 0) return null;
  return (
    <Section title="Budgets" about="with reservations of running jobs">
      <Table
        label="budgets"
        columns={BUDGETS}
        rows={of.budgets}
        keyOf={({ tenant, rule_id, per, key }) => JSON.stringify([tenant, rule_id, per, key])}
      />
    </Section>
  );
}

function leftOf({ tokens, usd }: Budget): string {
  return [
    ...(tokens === undefined ? [] : [`${count(tokens.remaining)} of ${count(tokens.limit)} tokens`]),
    ...(usd === undefined ? [] : [`$${usd.remaining} of $${usd.limit}`]),
  ].join(", ");
}

export function Queues({ of }: { readonly of: Overview }) {
  return (
    <div class="columns three">
      <Section title="Backlog by topic">
        {of.topics.length === 0 ? (
          <Empty title="no queued jobs" />
        ) : (
          <Table label="topics" columns={TOPICS} rows={of.topics} keyOf={({ topic }) => topic} />
        )}
      </Section>
      <Section title="Backlog by tenant">
        {of.tenants.length === 0 ? (
          <Empty title="no queued jobs" />
        ) : (
          <Table label="tenants" columns={TENANTS} rows={of.tenants} keyOf={({ tenant }) => tenant} />
        )}
      </Section>
      <Section title="Process" about={of.process}>
        {!of.ready && <p class="tone-bad">not ready: {of.not_ready_because}</p>}
        <Table label="background loops" columns={DUTIES} rows={Object.entries(of.duties)} keyOf={([name]) => name} />
      </Section>
    </div>
  );
}

function TenantName({ tenant }: { readonly tenant: string }) {
  if (who.value?.tenant !== "*") return tenant;
  return (
    <button type="button" class="link" title="show this tenant only" onClick={() => chooseTenant(tenant)}>
      {tenant}
    </button>
  );
}

const NEARLY_USED = 0.8;
/** The readiness of the process ends later than this. */
const LATE_MS = 5_000;
