/** The fields of a schedule as a form, and the request that they make. */
import { type Signal, useSignal } from "@preact/signals";
import type { ScheduleDetail, ScheduleRequest } from "../../../../src/client/schema.ts";

export interface ScheduleForm {
  readonly id: Signal<string>;
  readonly workflow: Signal<string>;
  readonly kind: Signal<"cron" | "every">;
  readonly cron: Signal<string>;
  readonly every: Signal<string>;
  readonly timeZone: Signal<string>;
  readonly overlap: Signal<ScheduleDetail["overlap"]>;
  readonly jitterS: Signal<string>;
  readonly catchUpMin: Signal<string>;
  /** JSON. */
  readonly input: Signal<string>;
}

export function useScheduleForm(before: ScheduleDetail | null): ScheduleForm {
  return {
    id: useSignal(before?.id ?? ""),
    workflow: useSignal(before?.workflow_id ?? ""),
    kind: useSignal<"cron" | "every">(before?.every === undefined ? "cron" : "every"),
    cron: useSignal(before?.cron ?? "0 9 * * 1-5"),
    every: useSignal(before?.every ?? "1h"),
    timeZone: useSignal(before?.time_zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone),
    overlap: useSignal<ScheduleDetail["overlap"]>(before?.overlap ?? "skip"),
    jitterS: useSignal(String((before?.jitter_ms ?? 0) / 1_000)),
    catchUpMin: useSignal(String((before?.catch_up_ms ?? 3_600_000) / 60_000)),
    input: useSignal(JSON.stringify(before?.input ?? {}, null, 2)),
  };
}

export function requestOf(form: ScheduleForm, input: unknown): ScheduleRequest {
  const isCron = form.kind.value === "cron";
  return {
    id: form.id.value.trim(),
    workflow_id: form.workflow.value.trim(),
    ...(isCron
      ? { cron: form.cron.value.trim(), time_zone: form.timeZone.value.trim() }
      : { every: form.every.value.trim() }),
    overlap: form.overlap.value,
    jitter_ms: Math.round(Number(form.jitterS.value) * 1_000),
    catch_up_ms: Math.round(Number(form.catchUpMin.value) * 60_000),
    input,
  };
}
