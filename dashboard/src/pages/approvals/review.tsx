/** One request: exactly what would run, why it needs a decision, and the decision. */
import { type Signal, useSignal } from "@preact/signals";
import type { JobDetail } from "../../../../src/client/schema.ts";
import { segment } from "../../data/location.ts";
import { type Resource, useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Action } from "../../kit/action.tsx";
import { StateBadge } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Json } from "../../kit/json.tsx";
import { Facts, Id, Section } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { counted } from "../../kit/numbers.ts";
import { RuleFacts } from "../../kit/rule.tsx";
import { Show } from "../../kit/state.tsx";
import { Countdown, Time } from "../../kit/time.tsx";

export function Review({ id, onDecided }: { readonly id: string; readonly onDecided: () => void }) {
  const job = useResource(`approval ${id}`, (signal) => api.value.jobs.get(id, { signal }), {
    isAffected: (change) => change.event === "job" && change.data.job_id === id,
    gapMs: 200,
  });
  return (
    <Show of={job} what="the request">
      {(value) => (
        <>
          <Head value={value} job={job} onDecided={onDecided} />
          <Decided value={value} />
          <Arguments value={value} />
          <div class="columns">
            <Rule value={value} />
            <Requester value={value} />
          </div>
        </>
      )}
    </Show>
  );
}

interface HeadProps {
  readonly value: JobDetail;
  readonly job: Resource<JobDetail>;
  readonly onDecided: () => void;
}

function Head({ value, job, onDecided }: HeadProps) {
  const { job_id: id, topic, approval, state } = value;
  const decided = () => {
    void job.reload();
    onDecided();
    return true;
  };
  return (
    <header class="review-head">
      <div>
        <h2 class="mono">{topic}</h2>
        <p class="soft">
          <a class="mono" href={`/jobs/${segment(id)}`}>
            {id}
          </a>
        </p>
      </div>
      <span class="grow" />
      {state === "APPROVAL_REQUIRED" ? (
        <>
          {approval !== null && (
            <span class="review-time">
              <Countdown at={approval.expires_at} />
            </span>
          )}
          <Decisions value={value} decided={decided} />
        </>
      ) : (
        <StateBadge state={state} />
      )}
      <Explain of="job" id={id} />
    </header>
  );
}

function Decisions({ value, decided }: { readonly value: JobDetail; readonly decided: () => boolean }) {
  const { job_id: id, topic, approval } = value;
  // What was reviewed: the approval is refused if the job or the policy has changed since.
  const seen = approval === null ? {} : { job_hash: approval.job_hash, snapshot: approval.snapshot };
  return (
    <>
      <Action
        label="Approve"
        tone="main"
        shortcut="a"
        needs="operate"
        send="POST /approvals/{id}/approve"
        args={{ path: { id }, body: seen }}
        cli={["approval approve", id]}
        confirm={{
          title: `Approve ${topic}?`,
          text: "The job runs with exactly these arguments. The decision is recorded in the audit log.",
          reason: { field: "note", label: "Note" },
        }}
        done={`approved ${topic}`}
        onDone={decided}
        onFailed={decided}
      />
      <Action
        label="Reject"
        tone="danger"
        shortcut="r"
        needs="operate"
        send="POST /approvals/{id}/reject"
        args={{ path: { id }, body: { reason: "" } }}
        cli={["approval reject", id, "--reason", "REASON"]}
        confirm={{
          title: `Reject ${topic}?`,
          text: "The job ends as DENIED. The reason is shown to its submitter.",
          reason: { field: "reason", label: "Reason", isRequired: true },
        }}
        done={`rejected ${topic}`}
        onDone={decided}
        onFailed={decided}
      />
    </>
  );
}

/** A second approver sees the decision of the first. */
function Decided({ value: { approval, state, error } }: { readonly value: JobDetail }) {
  if (state === "APPROVAL_REQUIRED") return null;
  if (approval === null || approval.decision === null) {
    return (
      <Note tone="warn">
        This request is no longer open: the job is {state.toLowerCase().replaceAll("_", " ")}
        {error === null ? "" : `: ${error.message}`}.
      </Note>
    );
  }
  const { decision, decided_by_name, decided_by, decided_at, note } = approval;
  return (
    <Note tone={decision === "approved" ? "good" : "bad"}>
      <strong>
        {decision} by {decided_by_name ?? decided_by ?? "an unknown key"}
      </strong>{" "}
      {decided_at !== null && <Time at={decided_at} both />}
      {note !== null && note !== "" && <>: “{note}”</>}
    </Note>
  );
}

function Arguments({ value }: { readonly value: JobDetail }) {
  const revealed = useSignal<{ readonly input: unknown } | null>(null);
  const hidden = value.hidden ?? [];
  const tools = revealed.value === null ? <Reveal value={value} revealed={revealed} /> : <Hide revealed={revealed} />;
  return (
    <Section
      title="Arguments"
      about={
        hidden.length === 0
          ? "complete: nothing is hidden"
          : `${counted(hidden.length, "value")} hidden: ${hidden.join(", ")}`
      }
      tools={hidden.length > 0 && value.state === "APPROVAL_REQUIRED" && tools}
    >
      {revealed.value !== null && (
        <Note tone="warn">These values are secret. The audit log records that you saw them.</Note>
      )}
      <Json value={(revealed.value ?? value).input} label="arguments" />
      {value.payload_problems?.map((problem) => (
        <Note key={problem} tone="bad">
          {problem}
        </Note>
      ))}
    </Section>
  );
}

type Revealed = Signal<{ readonly input: unknown } | null>;

function Reveal({ value, revealed }: { readonly value: JobDetail; readonly revealed: Revealed }) {
  return (
    <Action
      label="Reveal"
      shortcut="v"
      needs="operate"
      send="POST /approvals/{id}/reveal"
      args={{ path: { id: value.job_id }, body: { reason: "" } }}
      cli={["approval reveal", value.job_id, "--reason", "REASON"]}
      confirm={{
        title: "Reveal the hidden values?",
        text: "The audit log records who saw them, when and why. They are shown until you leave this request.",
        reason: { field: "reason", label: "Reason", isRequired: true },
      }}
      done="hidden values are shown; recorded in the audit log"
      onDone={(response) => {
        revealed.value = { input: response.input };
      }}
    />
  );
}

function Hide({ revealed }: { readonly revealed: Revealed }) {
  return (
    <button
      type="button"
      class="button"
      onClick={() => {
        revealed.value = null;
      }}
    >
      Hide again
    </button>
  );
}

function Rule({ value: { approval, safety } }: { readonly value: JobDetail }) {
  const rules = useResource("policy rules", (signal) => api.value.policy.rules({ signal }));
  const ruleId = approval?.rule_id ?? null;
  return (
    <Section title="Rule" about={ruleId ?? "the default decision of the policy"}>
      <Show of={rules} what="the rule">
        {({ items, snapshot }) => {
          const rule = items.find(({ id }) => id === ruleId);
          return (
            <>
              {snapshot !== approval?.snapshot && (
                <Note tone="warn">The policy has changed since the request: approving checks the job again.</Note>
              )}
              {rule === undefined ? <p>{safety?.reason}</p> : <RuleFacts rule={rule} />}
            </>
          );
        }}
      </Show>
    </Section>
  );
}

function Requester({ value }: { readonly value: JobDetail }) {
  const { caller, approval } = value;
  const labels = Object.entries(value.labels).map(([name, text]) => `${name}=${text}`);
  return (
    <Section title="Requester">
      <Facts
        of={[
          ["person", caller?.person],
          ["key", caller?.name ?? value.submitted_by],
          ["role", caller?.role],
          ["tenant", value.tenant_id],
          ["actor", value.actor_id && `${value.actor_id}${value.actor_type === null ? "" : ` (${value.actor_type})`}`],
          ["capability", value.capability],
          ["risk tags", value.risk_tags.join(", ")],
          ["labels", labels.join(", ")],
          ["priority", value.priority],
          ["requested", approval && <Time at={approval.requested_at} both />],
          ["expires", approval && <Time at={approval.expires_at} both />],
          ["own approval", approval && (approval.by_submitter ? "the submitter may approve" : "not by the submitter")],
          ["job hash", approval && <Id id={approval.job_hash} />],
        ]}
      />
    </Section>
  );
}
