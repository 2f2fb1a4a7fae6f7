import { Type } from "typebox";
import { approvalBlock } from "../../core/jobs/approval.ts";
import { API_KEYS, type ApiKey, EVERY_ORG, keyState, keysOf } from "../../core/model/api-key.ts";
import type { Job } from "../../core/model/job.ts";
import type { Engine } from "../../engine/engine.ts";
import { LOCAL, ROLE_ACCESS } from "./access.ts";

/**
 * Whether any key can approve a job of its tenant. Only jobs that await approval are asked about. The keys of a tenant are
 * cached for a few seconds, in bounded number; the answer discloses neither keys nor people.
 */
export class Approvers {
  readonly #engine: Engine;
  readonly #cache = new Map<string, { readonly atMs: number; readonly keys: Promise<readonly ApiKey[] | null> }>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** True if no key can approve the job, false if one can or if there are too many keys to tell. */
  async isMissing(job: Job): Promise<boolean> {
    const keys = await this.#keysOf(job.org);
    if (keys === null) return false;
    const nowMs = this.#engine.world.clock.now();
    const canApprove = ({ id, person }: ApiKey) => approvalBlock(job, { by: id, person }, nowMs) === null;
    return !keys.some((key) => keyState(key, nowMs) === "good" && canApprove(key));
  }

  /** Keys that may approve jobs of the tenant; null if the lists are longer than one page. */
  #keysOf(org: string): Promise<readonly ApiKey[] | null> {
    const nowMs = this.#engine.world.clock.now();
    const cached = this.#cache.get(org);
    if (cached && Math.abs(nowMs - cached.atMs) < CACHE_MS) return cached.keys;
    const keys = this.#read(org);
    keys.catch(() => this.#cache.delete(org));
    this.#cache.delete(org);
    this.#cache.set(org, { atMs: nowMs, keys });
    for (const oldest of this.#cache.keys()) {
      if (this.#cache.size <= TENANTS_MAX) break;
      this.#cache.delete(oldest);
    }
    return keys;
  }

  async #read(org: string): Promise<readonly ApiKey[] | null> {
    const { store } = this.#engine.world;
    const pages = await Promise.all(
      // The list of `*` has the keys of all tenants.
      [org, EVERY_ORG].map((name) => store.list(API_KEYS, { index: keysOf(name), limit: KEYS_READ_MAX })),
    );
    if (pages.some(({ items }) => items.length === KEYS_READ_MAX)) return null;
    const keys = pages.flatMap(({ items }) => items.map(({ value }) => value));
    return keys.filter(
      (key) => (key.org === org || key.org === EVERY_ORG) && ROLE_ACCESS[key.role].includes("operate"),
    );
  }
}

export const NO_APPROVER = Type.Object(
  {
    detail: Type.String(),
    ways: Type.Array(Type.Object({ what: Type.String(), command: Type.Union([Type.String(), Type.Null()]) })),
  },
  { title: "NoApprover", description: "No API key can approve the job: why, and what to do. Absent if one can." },
);

/** How a job that its submitter cannot approve gets approved. */
export interface ApprovalWay {
  readonly what: string;
  readonly command: string | null;
}

export function approvalWays({ org, approval, submittedBy, caller }: Job): readonly ApprovalWay[] {
  const ruleId = approval?.ruleId ?? null;
  const rule = ruleId === null ? "a rule that matches the job" : `rule \`${ruleId}\``;
  const person = caller?.person === undefined ? "" : " --person NAME";
  const isFirst = submittedBy === LOCAL.id;
  const create = isFirst
    ? "cordum key create --tenant '*' --role admin --name NAME"
    : `cordum key create --tenant ${org} --role operator${person || " --name NAME"}`;
  return [
    {
      what: `approve with the key of a second person${isFirst ? "; once a key exists, the start-up token is void" : ""}`,
      command: create,
    },
    {
      what: `allow submitters to approve their own jobs: \`approval: {by_submitter: true}\` in ${rule}`,
      command: "cordum policy publish FILE",
    },
  ];
}

export function describeWays(ways: readonly ApprovalWay[]): string {
  return ways.map(({ what, command }) => (command === null ? what : `${what} (\`${command}\`)`)).join("; or ");
}

const CACHE_MS = 5_000;
const TENANTS_MAX = 1_000;
const KEYS_READ_MAX = 1_000;
