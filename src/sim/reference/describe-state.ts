import type { Run } from "../../core/model/run.ts";
import type { SimWorkflow } from "../workload/run-plan.ts";
import type { RefChild, RefReceived, RefState } from "./model.ts";
import { openJobsOf, runStateOf } from "./run-reference.ts";

/** A state of the model and a stored run as texts that are equal if they agree. */
export function describeState(workflow: SimWorkflow, state: RefState): string {
  const steps = workflow.steps.map(({ id }) => {
    const own = state.children.get(id);
    const count = (...kinds: readonly RefChild[]): number => own?.filter((child) => kinds.includes(child)).length ?? 0;
    const [open, ok, stopped] = [count("open", "stopping"), count("ok"), count("stopped")];
    const failed = (own?.length ?? 0) - open - ok - stopped;
    const is = state.steps.get(id) ?? "PENDING";
    return `${id} ${is}${own ? counts(open, ok, failed, stopped) : ""}${iterationOf(is, state.iterations.get(id))}`;
  });
  const open = [...openJobsOf(state, workflow)].sort();
  const kept = keptText(state.mailbox);
  return `${steps.join(", ")}; out: ${open.join(" ")}; kept: ${kept}; ${runStateOf(workflow, state)}`;
}

/** With the counts of the lists that the model follows; a rerun keeps lists without their children. */
export function describeRun(
  run: Run,
  { steps: all }: SimWorkflow,
  open: readonly string[],
  { children }: RefState,
): string {
  const steps = all.map(({ id }) => {
    const { state = "PENDING", fan, loop } = run.steps[id] ?? {};
    const isFollowed = fan && children.has(id);
    const childCounts = isFollowed ? counts(fan.open, fan.succeeded, fan.failed, fan.cancelled) : "";
    return `${id} ${state}${childCounts}${iterationOf(state, loop?.iteration)}`;
  });
  const events = (run.events?.kept ?? []).map(({ name, key = null }) => ({ event: name, key }));
  const kept = keptText(events.map(({ event, key }) => ({ event, key: key === run.labels.run_order ? "own" : key })));
  return `${steps.join(", ")}; out: ${[...open].sort().join(" ")}; kept: ${kept}; ${run.state}`;
}

/** A rerun keeps an ended loop without its iterations. */
const iterationOf = (state: string, iteration: number | undefined): string =>
  state === "RUNNING" && iteration !== undefined ? ` in iteration ${iteration}` : "";

const keptText = (kept: readonly RefReceived[]): string => kept.map(({ event, key }) => `${event} ${key}`).join(", ");

const counts = (open: number, ok: number, failed: number, stopped: number): string =>
  ` (${open} open, ${ok} ok, ${failed} failed, ${stopped} stopped)`;
