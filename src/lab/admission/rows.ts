/** The cells of `cordum lab admission`: what is set differently in each, and what is measured. */
import { settingsFrom } from "../../config/config.ts";
import { parsePolicy } from "../../core/retry/policies.ts";
import type { Settings } from "../../core/settings.ts";
import type { Row } from "../experiment.ts";
import { binned, mean, percentiles } from "../statistics.ts";
import { keyOf } from "./cells.ts";
import { BESIDE, type Client } from "./clients.ts";
import { LIMIT } from "./stage.ts";
import { type AdmissionHistory, type AdmissionOrder, runAdmission } from "./world.ts";

export interface CellWish extends Omit<AdmissionOrder, "settings" | "client" | "callers"> {
  readonly part: "grid" | "sweep";
  readonly contenders: number;
  /** `atomic`, or the policy with which the lock is polled. */
  readonly policy: string;
  readonly client: ClientName;
  readonly maxWaitMs: number;
  readonly binMs: number;
}

export const CLIENTS = {
  none: { kind: "none" },
  fixed: { kind: "policy", policy: parsePolicy("fixed:1s") },
  jittered: { kind: "policy", policy: parsePolicy("full:250ms:4s") },
  told: { kind: "told" },
} as const satisfies Readonly<Record<string, Client>>;

export type ClientName = keyof typeof CLIENTS;

/** `alone`: how long requests of the other org take when nobody is beside it. */
export async function admissionRow(request: CellWish, alone: readonly number[]): Promise<Row> {
  const history = await runAdmission(orderOf(request, request.contenders));
  return { key: keyOf(request), ...measured(request, history, alone) };
}

/** What a history says, simulated or live. */
export function measured(request: CellWish, history: AdmissionHistory, alone: readonly number[]): Omit<Row, "key"> {
  return {
    figures: {
      ...figuresOf(history, request),
      other_ms: percentiles(history.beside.map(({ tookMs }) => tookMs)),
      other_503: history.beside.filter(({ status }) => status === 503).length,
      other_alone_ms: percentiles(alone),
    },
    series: {
      arrivals: binned(history.asksMs, request.binMs, history.fromMs),
      requests_ms: thinned(history.callers.flatMap(({ answers }) => answers.map(({ tookMs }) => tookMs))),
      waits_ms: waitsOf(history).toSorted((a, b) => a - b),
    },
  };
}

/** The other org's requests with nobody beside it. */
export async function aloneMs(request: CellWish): Promise<readonly number[]> {
  return (await runAdmission(orderOf(request, 0))).beside.map(({ tookMs }) => tookMs);
}

function orderOf(request: CellWish, callers: number): AdmissionOrder {
  return { ...request, callers, client: CLIENTS[request.client], settings: settingsOf(request) };
}

export function settingsOf({ policy, maxWaitMs }: Pick<CellWish, "policy" | "maxWaitMs">): Settings {
  const polled = { "admission.strategy": "polled", "admission.polled.policy": policy } as const;
  const settings = settingsFrom({
    "limits.max_concurrent_runs": LIMIT,
    "admission.polled.max_wait_ms": maxWaitMs,
    ...(policy === "atomic" ? { "admission.strategy": "atomic" } : polled),
  });
  return { ...settings, orgs: { [BESIDE]: { limits: { concurrentRunsMax: ROOM } } } };
}

function figuresOf(history: AdmissionHistory, { contenders, holdMs, binMs }: CellWish): Row["figures"] {
  const answers = history.callers.flatMap((caller) => caller.answers);
  const waitsMs = waitsOf(history);
  const count = (status: number): number => answers.filter((answer) => answer.status === status).length;
  const share = (status: number): number => (100 * count(status)) / answers.length;
  const arrivals = binned(history.asksMs, binMs, history.fromMs);
  const lastMs = mostOf(answers.map(({ sentMs, tookMs }) => sentMs + tookMs)) - history.fromMs;
  return {
    admitted: waitsMs.length,
    admitted_share: (100 * waitsMs.length) / contenders,
    admitted_max_concurrent: history.openMax,
    status: { "200": count(200), "429": count(429), "503": count(503) },
    share: { "200": share(200), "429": share(429), "503": share(503) },
    request_ms: percentiles(answers.map(({ tookMs }) => tookMs)),
    wait_ms: percentiles(waitsMs),
    wait_ms_max: waitsMs.length === 0 ? null : mostOf(waitsMs),
    requests_per_caller: answers.length / contenders,
    /** How much of the time in which somebody wanted a slot the slots were in use. */
    slots_used_share: Math.min(100, (100 * waitsMs.length * holdMs) / (LIMIT * Math.max(lastMs, holdMs))),
    asks: history.asksMs.length,
    arrivals: { bin_ms: binMs, peak: mostOf(arrivals), mean: mean(arrivals) },
  };
}

const waitsOf = ({ callers }: AdmissionHistory): readonly number[] =>
  callers.flatMap(({ waitedMs }) => (waitedMs === null ? [] : [waitedMs]));

/** Of however many. */
const mostOf = (values: readonly number[]): number => values.reduce((most, value) => Math.max(most, value), 0);

function thinned(values: readonly number[]): readonly number[] {
  const sorted = values.toSorted((a, b) => a - b);
  const every = Math.max(1, Math.ceil(sorted.length / SAMPLES_MAX));
  return sorted.filter((_, index) => index % every === 0);
}

const ROOM = 1_000_000;
const SAMPLES_MAX = 500;
