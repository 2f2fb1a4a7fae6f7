/** One dead letter: why it is one, its payload and history, and what can be done about it. */
import { useSignal } from "@preact/signals";
import type { DeadLetterDetail, HistoryLine } from "../../../../src/client/schema.ts";
import { href, navigate, segment } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api, may } from "../../data/session.ts";
import { Action } from "../../kit/action.tsx";
import { Badge } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Json } from "../../kit/json.tsx";
import { Facts, Id, Page, Section } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { duration } from "../../kit/numbers.ts";
import { Show } from "../../kit/state.tsx";
import { type Column, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { EditDialog } from "./edit-dialog.tsx";

const LIST = "/dead-letters?view=list";

export function DeadLetterPage({ id }: { readonly id: string }) {
  const letter = useResource(`dead letter ${id}`, (signal) => api.value.deadLetters.get(id, { signal }));
  const shown = letter.shown.value;
  const detail = shown.kind === "ready" ? shown.value : null;
  return (
    <Page
      title={id}
      tab={`Dead letter ${id}`}
      trail={[["/dead-letters", "Dead letters"]]}
      beside={detail !== null && <Badge tone="bad">{detail.reason}</Badge>}
      actions={detail !== null && <Actions detail={detail} />}
    >
      <Show of={letter} what="the dead letter">
        {(value) => (
          <>
            <div class="columns">
              <ErrorSection detail={value} />
              <Record detail={value} />
            </div>
            <Payload detail={value} />
            {value.history.length > 0 && (
              <Section title="History">
                <Table label="history" columns={HISTORY} rows={value.history} keyOf={(line) => line.at + line.event} />
              </Section>
            )}
          </>
        )}
      </Show>
    </Page>
  );
}

function Actions({ detail: { id, job_id: jobId, reason, ...detail } }: { readonly detail: DeadLetterDetail }) {
  const isEditing = useSignal(false);
  return (
    <>
      {jobId !== undefined && <Explain of="job" id={jobId} />}
      {jobId !== undefined && may("operate") && may("submit") && (
        <button
          type="button"
          class="button"
          onClick={() => {
            isEditing.value = true;
          }}
        >
          Edit and retry
        </button>
      )}
      {reason !== "undecodable" && (
        <Action
          label="Retry"
          tone="main"
          needs="operate"
          send="POST /dlq/{id}/retry"
          args={{ path: { id } }}
          cli={["dlq retry", id]}
          confirm={{
            title: "Retry this dead letter?",
            text: "It runs again with the same payload and new retry budgets. The policy checks it again.",
          }}
          done="dead letter is retried"
          onDone={() => navigate(jobId === undefined ? LIST : `/jobs/${segment(jobId)}`)}
        />
      )}
      <Action
        label="Drop"
        tone="danger"
        needs="operate"
        send="DELETE /dlq/{id}"
        args={{ path: { id } }}
        cli={["dlq drop", id]}
        confirm={{ title: "Drop this dead letter?", text: "It cannot be retried afterwards. Its job stays as it is." }}
        done="dead letter dropped"
        onDone={() => navigate(LIST)}
      />
      {isEditing.value && jobId !== undefined && (
        <EditDialog
          id={id}
          jobId={jobId}
          input={detail.input}
          onClose={() => {
            isEditing.value = false;
          }}
        />
      )}
    </>
  );
}

function ErrorSection({ detail: { error } }: { readonly detail: DeadLetterDetail }) {
  if (error === null) return null;
  return (
    <Section title="Error">
      <p class="lead error-text">
        <strong>{error.name}</strong>: {error.message}
      </p>
      <Facts
        of={[
          ["code", error.code === undefined ? null : String(error.code)],
          ["retry class", error.retryClass],
          ["worker asked for", error.retryDelayMs === undefined ? null : duration(error.retryDelayMs)],
          ["permanent", error.retryNever && "the worker said that a retry cannot help"],
          ["caused by", error.cause && `${error.cause.name}: ${error.cause.message}`],
        ]}
      />
    </Section>
  );
}

function Record({ detail }: { readonly detail: DeadLetterDetail }) {
  const { job_id: jobId, topic, subject, tenant_id, created_at, attempt, deliveries, message_id, fingerprint } = detail;
  return (
    <Section title={detail.source === "job" ? "Job" : "Message"}>
      <Facts
        of={[
          ["job", jobId && <Id id={jobId} to={`/jobs/${segment(jobId)}`} />],
          ["message", message_id && <Id id={message_id} />],
          ["topic", topic],
          ["subject", subject],
          ["tenant", tenant_id],
          ["dead-lettered", <Time key="at" at={created_at} both />],
          ["attempts", attempt],
          ["deliveries", deliveries],
          [
            "cause",
            fingerprint && (
              <a href={href("/dead-letters", { view: "list", fingerprint })}>others with the same cause</a>
            ),
          ],
        ]}
      />
    </Section>
  );
}

function Payload({ detail: { input, packet, base64, payload_problems } }: { readonly detail: DeadLetterDetail }) {
  return (
    <Section title="Payload" {...(base64 === undefined ? {} : { about: "the bytes, base64: they are no packet" })}>
      {payload_problems?.map((problem) => (
        <Note key={problem} tone="bad">
          {problem}
        </Note>
      ))}
      <Json value={base64 ?? packet ?? input} label="payload" />
    </Section>
  );
}

const HISTORY: readonly Column<HistoryLine>[] = [
  { name: "Time", width: "8.5rem", cell: ({ at }) => <Time at={at} /> },
  { name: "Event", width: "minmax(7rem, 1fr)", cell: ({ event }) => event.replaceAll("_", " ") },
  { name: "Attempt", width: "4.5rem", priority: 2, align: "end", cell: ({ attempt }) => attempt },
  {
    name: "Next delay",
    width: "minmax(8rem, 1fr)",
    priority: 2,
    cell: ({ delay_ms, policy }) =>
      delay_ms !== null && `${duration(delay_ms)}${policy === null ? "" : `, by ${policy}`}`,
  },
  { name: "By", width: "minmax(6rem, 1fr)", priority: 3, cell: ({ who, who_name }) => who_name ?? who },
  { name: "Why", width: "minmax(8rem, 3fr)", cell: ({ why }) => why },
];
