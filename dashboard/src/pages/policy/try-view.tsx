/**
 * What the policy in force decides about a request, and why each earlier rule did not match; nothing is submitted.
 *
 * 1. The address has the request without its input, which may be confidential: a link shows the same decision for requests
 *    whose input no rule reads.
 */
import { signal, useSignal } from "@preact/signals";
import { useEffect, useId } from "preact/hooks";
import type { CordumError } from "../../../../src/client/client-error.ts";
import type { PolicyExplanation, PolicyRequest } from "../../../../src/client/schema.ts";
import { href, hrefWith, param, setParams } from "../../data/location.ts";
import { api, may, toError } from "../../data/session.ts";
import { RequestMenu } from "../../kit/action.tsx";
import { Section } from "../../kit/layout.tsx";
import { Prose } from "../../kit/prose.tsx";
import { EffectBadge } from "../../kit/rule.tsx";
import { Empty, Failed } from "../../kit/state.tsx";
import { DecisionFacts } from "./decision-facts.tsx";
import { draft } from "./draft.ts";
import { simulate } from "./simulate.ts";
import { explainArguments, FIELDS, type FieldSpec, fieldsOf, readRequest, withField } from "./try-request.ts";

type Tried =
  | { readonly kind: "none" }
  | { readonly kind: "busy" }
  | { readonly kind: "failed"; readonly error: CordumError }
  | { readonly kind: "decided"; readonly explanation: PolicyExplanation; readonly byDraft: string | null };

/** As it is typed; kept while the page is open. */
const text = signal("");

export function TryView() {
  const tried = useSignal<Tried>({ kind: "none" });
  const read = readRequest(text.value);
  const run = async (request: PolicyRequest) => {
    const { input: _, ...rest } = request;
    setParams({ request: JSON.stringify(rest) }, { replace: true });
    tried.value = { kind: "busy" };
    tried.value = await tryRequest(request).catch((error): Tried => ({ kind: "failed", error: toError(error) }));
  };
  useEffect(() => {
    const shared = param("request");
    if (shared !== "" && !isSameWithoutInput(shared)) text.value = indented(shared);
    if (text.peek() === "") text.value = EXAMPLE;
    const found = readRequest(text.peek());
    if (shared !== "" && found.kind === "ok") void run(found.request);
  }, []);
  return (
    <div class="columns try">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (read.kind === "ok") void run(read.request);
        }}
      >
        <RequestSection
          problem={read.kind === "bad" ? read.why : null}
          request={read.kind === "ok" ? read.request : null}
        />
      </form>
      <Answer tried={tried.value} />
    </div>
  );
}

async function tryRequest(request: PolicyRequest): Promise<Tried> {
  const explanation = await api.peek().request("POST /policy/explain", { body: request });
  const policy = draft.peek()?.text;
  if (policy === undefined || !may("system")) return { kind: "decided", explanation, byDraft: null };
  // A draft with problems decides nothing.
  const decisions = await simulate(policy, [request]).catch(() => []);
  return { kind: "decided", explanation, byDraft: decisions[0]?.decision ?? null };
}

function RequestSection({
  request,
  problem,
}: {
  readonly request: PolicyRequest | null;
  readonly problem: string | null;
}) {
  const isJson = param("as") === "json";
  return (
    <Section
      title="Request"
      about="nothing is submitted"
      tools={
        <a class="button small" href={hrefWith({ as: isJson ? null : "json" })}>
          {isJson ? "As a form" : "As JSON"}
        </a>
      }
    >
      {isJson || request === null ? <JsonField problem={problem} /> : <FormFields request={request} />}
      <p class="soft">The address of this page has the request without its input.</p>
      <span class="action">
        <button type="submit" class="button main" disabled={request === null}>
          Try
        </button>
        {request !== null && (
          <RequestMenu
            label="Try"
            request={{ name: "POST /policy/explain", body: request }}
            cli={explainArguments(request)}
          />
        )}
      </span>
    </Section>
  );
}

function JsonField({ problem }: { readonly problem: string | null }) {
  return (
    <label class="field">
      <span>Request, as JSON</span>
      <textarea
        class="mono"
        rows={14}
        spellcheck={false}
        value={text.value}
        aria-invalid={problem !== null}
        onInput={(event) => {
          text.value = event.currentTarget.value;
        }}
      />
      <span class="tone-bad" role="status">
        {problem ?? ""}
      </span>
    </label>
  );
}

function FormFields({ request }: { readonly request: PolicyRequest }) {
  const fields = fieldsOf(request);
  const change = (name: string, value: string) => {
    text.value = indent(withField(request, name, value));
  };
  return (
    <>
      <div class="try-fields">
        {FIELDS.map((field) => (
          <FormField
            key={field.name}
            field={field}
            value={fields[field.name] ?? ""}
            onChange={(value) => change(field.name, value)}
          />
        ))}
      </div>
      <InputField request={request} />
    </>
  );
}

interface FormFieldProps {
  readonly field: FieldSpec;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function FormField({ field: { name, label, hint, choices }, value, onChange }: FormFieldProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id} class="soft">
        {label}
      </label>
      {choices === undefined ? (
        <input
          id={id}
          key={value}
          defaultValue={value}
          placeholder={hint}
          required={name === "topic"}
          autoComplete="off"
          spellcheck={false}
          onChange={(event) => onChange(event.currentTarget.value)}
        />
      ) : (
        <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          {choices.map((choice) => (
            <option key={choice} value={choice}>
              {choice === "" ? "any" : choice}
            </option>
          ))}
        </select>
      )}
    </div>
  );
}

/** The input is JSON of any kind: it becomes part of the request once it can be read. */
function InputField({ request }: { readonly request: PolicyRequest }) {
  const id = useId();
  const problem = useSignal("");
  const change = (typed: string) => {
    if (typed.trim() === "") {
      const { input: _, ...rest } = request;
      text.value = indent(rest);
      problem.value = "";
      return;
    }
    try {
      text.value = indent({ ...request, input: JSON.parse(typed) as unknown });
      problem.value = "";
    } catch (error) {
      problem.value = (error as Error).message;
    }
  };
  return (
    <div class="field">
      <label for={id} class="soft">
        Input, as JSON
      </label>
      <textarea
        id={id}
        class="mono"
        rows={5}
        spellcheck={false}
        defaultValue={request.input === undefined ? "" : indent(request.input)}
        aria-invalid={problem.value !== ""}
        onChange={(event) => change(event.currentTarget.value)}
      />
      <span class="tone-bad" role="status">
        {problem}
      </span>
    </div>
  );
}

function Answer({ tried }: { readonly tried: Tried }) {
  if (tried.kind === "failed") return <Failed what="the decision" error={tried.error} />;
  if (tried.kind !== "decided") {
    return (
      <Section title="Decision">
        <Empty title={tried.kind === "busy" ? "deciding …" : "try a request"} />
      </Section>
    );
  }
  const { explanation, byDraft } = tried;
  return (
    <div class="answer" aria-live="polite">
      <Section title="Decision">
        <p class="lead">
          <EffectBadge effect={explanation.decision} /> {explanation.reason}
        </p>
        <DecisionFacts decision={explanation} />
        {byDraft !== null && (
          <p class="by-draft">
            Your <a href={hrefWith({ view: "draft", request: null, as: null })}>draft</a> decides{" "}
            {byDraft === explanation.decision ? "the same." : <EffectBadge effect={byDraft} />}
          </p>
        )}
      </Section>
      <Earlier explanation={explanation} />
    </div>
  );
}

function Earlier({ explanation: { tried, omitted } }: { readonly explanation: PolicyExplanation }) {
  return (
    <Section title="Rules before it" about="and why they did not match">
      {tried.length === 0 && <Empty title="none: the first rule decided" />}
      <ol class="tried" aria-label="rules before it">
        {tried.map(({ rule_id, mismatches }) => (
          <li key={rule_id}>
            <a class="mono" href={href("/policy", { rule: rule_id })}>
              {rule_id}
            </a>
            <ul>
              {mismatches.map(({ part, text: why }) => (
                <li key={part}>
                  <span class="soft">{part.replaceAll("_", " ")}:</span> <Prose text={why} />
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ol>
      {omitted > 0 && <p class="soft">and {omitted} more that are not listed</p>}
    </Section>
  );
}

/** Coming back to a request whose input was typed keeps it. */
function isSameWithoutInput(shared: string): boolean {
  const read = readRequest(text.peek());
  if (read.kind === "bad") return false;
  const { input: _, ...rest } = read.request;
  return JSON.stringify(rest) === shared;
}

function indented(shared: string): string {
  const read = readRequest(shared);
  return read.kind === "ok" ? indent(read.request) : shared;
}

const indent = (value: unknown): string => JSON.stringify(value, null, 2);
const EXAMPLE = indent({ topic: "demo.echo" });
