/** Checks that a run of `examples/workflows/every-step.yaml` succeeded with one result per step. */
import type { Answer, Api } from "../api.ts";
import type { ReceivedWork } from "../workers/counting-worker.ts";

type Json = Answer["body"];

export const LINES = 11;
/** Large enough to require an approval. */
export const ORDER = {
  customer: "Ann",
  region: "eu",
  items: Array.from({ length: LINES }, (_, index) => ({ sku: `a-${index}`, count: 1 })),
};

/** Events for the loop. The same id makes repeated requests safe. */
export const SCANS = ["depot", "door"].map((place) => ({ name: "parcel.scanned", data: { place }, event_id: place }));

export async function problemsOf(
  api: Api,
  runId: string,
  received: readonly ReceivedWork[],
): Promise<readonly string[]> {
  const { body: run } = await api.get(`/workflow-runs/${runId}`);
  const { body: timeline } = await api.get(`/workflow-runs/${runId}/timeline?limit=200`);
  const { body: children } = await api.get(`/workflow-runs/${runId}/steps/reserve/children?limit=200`);
  const ids = STEP_JOBS.map((step) => `${runId}:${step}`);
  ids.push(...children.items.map(({ job_id }: Json) => job_id));
  const jobs = await Promise.all(ids.map((id) => api.job(encodeURIComponent(id))));
  const problems = [...inRun(run), ...inTimeline(timeline.items), ...jobs.flatMap((job) => inJob(job, received))];
  const indexes = children.items.map(({ index }: Json) => index);
  if (String(indexes) !== String([...indexes.keys()])) problems.push(`the children are ${indexes}`);
  const unknown = received.filter(({ jobId }) => jobId.startsWith(`${runId}:`) && !ids.includes(jobId));
  if (unknown.length > 0) problems.push(`the worker got jobs of unknown steps: ${JSON.stringify(unknown)}`);
  return problems.map((problem) => `run ${runId}: ${problem}`);
}

/** Checks that each run has one succeeded sub-run of `greet`. */
export async function subRunProblems(api: Api, runIds: readonly string[]): Promise<readonly string[]> {
  const subs = new Map<string, string[]>();
  for (let cursor = ""; ; ) {
    const { body } = await api.get(`/workflows/greet/runs?limit=200${cursor && `&cursor=${cursor}`}`);
    for (const { parent, state } of body.items) {
      subs.set(parent?.run_id, [...(subs.get(parent?.run_id) ?? []), state]);
    }
    if (body.next_cursor === null) break;
    cursor = body.next_cursor;
  }
  const wrong = runIds.filter((id) => String(subs.get(id)) !== "SUCCEEDED");
  return wrong.map((id) => `run ${id}: its runs of \`greet\` are ${subs.get(id)}`);
}

function inRun(run: Json): readonly string[] {
  const { open, succeeded, failed, cancelled } = run.steps.reserve.children ?? {};
  const states = Object.fromEntries(Object.entries<Json>(run.steps).map(([id, { state }]) => [id, state]));
  return [
    ...difference("the state", run.state, "SUCCEEDED"),
    ...difference("the greeting", run.output?.greeting, "hello Ann"),
    ...difference("the places", run.output?.places, SCANS.length),
    ...difference("the steps", states, STATES),
    ...difference("the counts", [open, succeeded, failed, cancelled], [0, LINES, 0, 0]),
  ];
}

function inTimeline(lines: readonly Json[]): readonly string[] {
  const seqs = lines.map(({ seq }) => seq);
  const counts = new Map<string, number>();
  for (const { event, step_id } of lines) {
    const kind = event === "step_started" ? "started" : /^step_/.test(event) ? "ended" : event;
    const key = step_id === null ? event : `${step_id} ${kind}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const expected = new Map([
    ["run_started", 1],
    ["run_succeeded", 1],
    ["is_large arm_chosen", 1],
    ["by_region arm_chosen", 1],
    ["event_received", SCANS.length],
    ["track iteration_started", SCANS.length],
  ]);
  for (const [step, state] of Object.entries(STATES)) {
    const times = IN_LOOP.includes(step) ? SCANS.length : 1;
    expected.set(`${step} ended`, times);
    if (state !== "SKIPPED") expected.set(`${step} started`, times);
  }
  return [
    ...difference("the sequence numbers of the timeline", seqs, [...seqs.keys()]),
    ...difference("the event counts", [...counts].sort(), [...expected].sort()),
  ];
}

function inJob(job: Json, received: readonly ReceivedWork[]): readonly string[] {
  const { job_id, state, history, attempt, updated_at } = job;
  const step = job.labels.step_id;
  const events: string[] = history.map(({ event }: Json) => event);
  const success = step === "ask" ? "approved" : "succeeded";
  const hasNoResult = step === "pause" || step === "quote_slow";
  const mine = received.filter(({ jobId }) => jobId === job_id);
  // A dispatch in flight may arrive after a cancellation. A succeeded job must not be dispatched after its end, except for
  // the next attempt after one that counted as lost. The worker reads the system clock, the control plane its shared time.
  const lastMs = state === "SUCCEEDED" ? Date.parse(updated_at) + CLOCKS_APART_MS : Number.POSITIVE_INFINITY;
  const late = mine.filter((one) => (one.attempt === 1 && one.atMs > lastMs) || one.attempt > attempt);
  return [
    ...difference(`the state of ${job_id}`, state, step === "quote_slow" ? "CANCELLED" : "SUCCEEDED"),
    ...(hasNoResult
      ? []
      : difference(`the successful ends of ${job_id}`, events.filter((event) => event === success).length, 1)),
    ...difference(`the dispatches of ${job_id} after its end at ${updated_at}`, late, []),
  ];
}

const CLOCKS_APART_MS = 250;

function difference(what: string, actual: unknown, expected: unknown): readonly string[] {
  const [one, other] = [JSON.stringify(actual), JSON.stringify(expected)];
  return one === other ? [] : [`${what}: ${one} instead of ${other}`];
}

/** The steps with one job each, and one per iteration. */
const STEP_JOBS = ["ask@1", "quote_fast@1", "quote_slow@1", "pay@1", "pause@1", "greet@1", "seen@1", "seen@2"];
const STATES = {
  order: "SUCCEEDED",
  reserve: "SUCCEEDED",
  is_large: "SUCCEEDED",
  ask: "SUCCEEDED",
  small: "SKIPPED",
  quotes: "SUCCEEDED",
  quote_fast: "SUCCEEDED",
  quote_slow: "CANCELLED",
  pay: "SUCCEEDED",
  refund: "SKIPPED",
  by_region: "SUCCEEDED",
  pause: "SUCCEEDED",
  abroad: "SKIPPED",
  greet: "SUCCEEDED",
  track: "SUCCEEDED",
  scan: "SUCCEEDED",
  seen: "SUCCEEDED",
};
const IN_LOOP = ["scan", "seen"];
