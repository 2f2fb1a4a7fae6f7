import type { Attention } from "../../../../src/client/schema.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { CopyMenu } from "../../kit/action.tsx";
import { Badge, type Tone } from "../../kit/badge.tsx";
import { Section } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { Prose } from "../../kit/prose.tsx";
import { Show } from "../../kit/state.tsx";
import { type Column, Table } from "../../kit/table.tsx";

/** What `cordum doctor` reports about this control plane. */
export function Findings() {
  const overview = useResource("findings", (signal) => api.value.request("GET /overview", {}, { signal }), {
    refreshMs: 10_000,
  });
  return (
    <Section
      title="Findings"
      about="dangerous first"
      tools={
        <CopyMenu
          label="findings"
          curl={`curl ${location.origin}/api/v1/overview -H "x-api-key: $CORDUM_API_KEY"`}
          cli="cordum doctor"
        />
      }
    >
      <Show
        of={overview}
        what="findings"
        isEmpty={({ attention }) => attention.length === 0}
        empty={<Note tone="good">Nothing dangerous was found.</Note>}
      >
        {({ attention }) => (
          <div class="findings">
            <Table
              label="findings"
              columns={COLUMNS}
              rows={attention}
              keyOf={({ kind, title }) => `${kind} ${title}`}
            />
          </div>
        )}
      </Show>
    </Section>
  );
}

const TONES: Readonly<Record<Attention["severity"], Tone>> = { danger: "bad", caution: "warn", info: "quiet" };

const COLUMNS: readonly Column<Attention>[] = [
  { name: "Level", width: "6.5rem", cell: ({ severity }) => <Badge tone={TONES[severity]}>{severity}</Badge> },
  { name: "Finding", width: "minmax(9rem, 1fr)", cell: ({ title }) => <Prose text={title} /> },
  { name: "What to do", width: "minmax(9rem, 1fr)", priority: 2, cell: ({ detail }) => <Prose text={detail} /> },
  {
    name: "",
    width: "3rem",
    align: "end",
    cell: ({ link, title }) =>
      !link.startsWith("/settings") && (
        <a href={link} aria-label={`open: ${title}`}>
          Open
        </a>
      ),
  },
];
