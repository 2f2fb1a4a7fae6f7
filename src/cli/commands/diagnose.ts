/**
 * What is dangerous about a control plane, from what it tells about itself. Pure: the same facts, the same findings.
 *
 * 1. `danger` loses jobs, lets them pass unchecked, or keeps everything from moving. `caution` is to be known, and
 *    what could not be found out: not known is not the same as fine.
 * 2. Every finding says what to do, and names a command where there is one.
 */
import { hostOf, isLoopback } from "../../core/model/loopback.ts";

export interface Finding {
  readonly level: "danger" | "caution";
  readonly code: string;
  readonly what: string;
  readonly fix: string;
  readonly next: string | null;
}

/** As much of `GET /api/v1/status` as is looked at. A control plane of another version may not have all of it. */
export interface StatusFacts {
  readonly version?: string;
  readonly mode?: string;
  readonly tenant?: string;
  readonly ready?: boolean;
  readonly not_ready_because?: string;
  readonly needs_key?: boolean;
  readonly warnings?: readonly string[];
  readonly servers?: {
    readonly nats: { readonly version: string };
    readonly redis: { readonly durability: string; readonly maxmemory_policy: string | null };
  };
  readonly signatures?: { readonly mode: string; readonly has_key: boolean };
  readonly dead_letters?: number;
  readonly dead_letters_by_tenant?: Readonly<Record<string, number>>;
  readonly backlog_total?: number;
  readonly kill?: readonly { readonly scope: string; readonly engaged_by: string }[];
  readonly workers?: { readonly total: number; readonly leaving: number };
  readonly safety_address?: string;
  readonly safety_line?: string;
  readonly safety?: {
    readonly breaker?: string;
    readonly breaker_reason?: string;
    readonly fail_open?: readonly { readonly id: string; readonly scope: string; readonly ends_at: string }[];
  };
}

export interface Facts {
  readonly status: StatusFacts;
  /** Jobs of the tenant that went out without a verdict and were not reviewed; null when it could not be found out. */
  readonly unreviewed: { readonly count: number; readonly isMore: boolean } | null;
  /** The address that was asked. */
  readonly url: string;
  readonly clientVersion: string;
}

export function diagnose(facts: Facts): readonly Finding[] {
  const found = [
    ...progress(facts),
    ...access(facts),
    ...durability(facts),
    ...bus(facts),
    ...safety(facts),
    ...work(facts),
  ];
  return [...found.filter(({ level }) => level === "danger"), ...found.filter(({ level }) => level === "caution")];
}

function progress({ status, clientVersion }: Facts): readonly Finding[] {
  const found: Finding[] = [];
  if (status.ready === false) {
    const what = `it makes no progress: ${status.not_ready_because ?? "it does not say why"}`;
    found.push(danger("not_ready", what, "look at the store and at the log of the process", "cordum status"));
  }
  if (status.version !== undefined && status.version !== clientVersion) {
    const what = `the control plane is version ${status.version}, this command is ${clientVersion}`;
    found.push(caution("version_differs", what, "use the same version of both", "cordum --version"));
  }
  return found;
}

function access({ status, url }: Facts): readonly Finding[] {
  if (status.needs_key !== false) return [];
  const make = "cordum key create --tenant '*' --role admin";
  if (isLoopbackUrl(url)) {
    const what = "there is no API key: everybody on this machine is its administrator";
    return [caution("no_keys", what, "make a key before others use this machine", make)];
  }
  const what = `there is no API key, and it is reached at ${url}: whoever gets there is its administrator`;
  return [danger("no_keys_beyond_loopback", what, "make a key now; from the first one on everybody needs one", make)];
}

function durability({ status: { servers, mode, tenant = "*", warnings = [] } }: Facts): readonly Finding[] {
  if (servers === undefined) {
    // A key of one tenant is told nothing of them.
    const unknown = mode === "cluster" && tenant === "*" ? ["this version does not tell what its servers promise"] : [];
    return [...unknown, ...warnings].map((what) => caution("warning", what, "see docs/operations.md", "cordum status"));
  }
  // The warnings of a cluster are about the same servers; what is known as facts is said once.
  return [...redisFindings(servers.redis), ...natsFindings(servers.nats.version)];
}

function redisFindings({ durability, maxmemory_policy }: NonNullable<StatusFacts["servers"]>["redis"]): Finding[] {
  const found: Finding[] = [];
  if (maxmemory_policy === null) {
    const what = "redis does not tell its maxmemory-policy: a policy that evicts throws jobs away";
    found.push(caution("redis_eviction_unknown", what, "make sure that it is `noeviction`", null));
  } else if (maxmemory_policy !== "noeviction") {
    const what = `redis evicts (maxmemory-policy ${maxmemory_policy}): a full server throws jobs away`;
    const next = "redis-cli config set maxmemory-policy noeviction";
    found.push(danger("redis_evicts", what, "set `maxmemory-policy noeviction`, in its config file too", next));
  }
  const fix = "set `appendonly yes` and `appendfsync always`, in its config file too";
  const lost = REDIS_LOSES[durability];
  if (lost !== undefined) {
    const next = `redis-cli config set ${durability === "none" ? "appendonly yes" : "appendfsync always"}`;
    found.push(danger("redis_loses", `a power cut at redis loses ${lost}`, fix, next));
  } else if (durability !== "always") {
    const what = "redis does not tell how durable it is";
    found.push(caution("redis_durability_unknown", what, `make sure: ${fix}`, null));
  }
  return found;
}

const REDIS_LOSES: Readonly<Record<string, string>> = {
  everysec: "its last second of acknowledged jobs (`appendfsync everysec`)",
  os: "what the system had not written yet (`appendfsync no`)",
  none: "everything since its last snapshot, and so does a restart (`appendonly no`)",
};

function natsFindings(version: string): Finding[] {
  const fix = "run nats-server with `jetstream { sync_interval: always }`";
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major < 2 || (major === 2 && minor < 10)) {
    const what = `nats-server ${version} writes every two minutes, and cannot be told otherwise: a power cut may lose its stream`;
    return [danger("nats_is_old", what, `use 2.10 or newer, and ${fix}`, null)];
  }
  const what = "nats-server does not tell its `sync_interval`; by default a power cut may lose two minutes";
  return [caution("nats_sync_unknown", what, `make sure: ${fix}`, null)];
}

/** Who can reach NATS is the server's own matter, and not known here. */
function bus({ status: { signatures } }: Facts): readonly Finding[] {
  if (signatures === undefined || signatures.mode === "enforce") return [];
  const next = "cordum config explain cap.signatures";
  if (signatures.mode === "warn") {
    const what = "packets without a right signature are still taken (`cap.signatures: warn`)";
    const first = signatures.has_key ? "" : "give this control plane a key (`cap.key`); ";
    const fix = `${first}set \`enforce\` once \`cordum_bus_signature_failures_total\` stands still`;
    return [caution("signatures_not_enforced", what, fix, next)];
  }
  const what = "packets are not verified: whoever reaches NATS can submit jobs and answer those of others";
  return [caution("packets_unsigned", what, "let NATS ask for credentials, or have packets signed", next)];
}

function safety({ status, unreviewed }: Facts): readonly Finding[] {
  const found: Finding[] = [];
  for (const { id, scope, ends_at } of status.safety?.fail_open ?? []) {
    const whose = scope === "*" ? "all tenants" : `tenant ${scope}`;
    const what = `a fail-open lease lets jobs of ${whose} go unchecked while the kernel does not answer, until ${ends_at}`;
    found.push(danger("fail_open", what, "close it once the kernel answers", `cordum failopen close ${id}`));
  }
  const { breaker, breaker_reason } = status.safety ?? {};
  if (breaker !== undefined && breaker !== "closed") {
    const what = `the safety kernel does not answer (breaker ${breaker}: ${breaker_reason ?? "no reason given"}); jobs wait`;
    const { fix, next } = KERNEL_FIXES.find(({ word }) => breaker_reason?.includes(word)) ?? KERNEL_AWAY;
    found.push(danger("safety_unavailable", what, fix, next));
  }
  const { safety_address: address, safety_line } = status;
  if (address !== undefined && safety_line === "plain" && !isLoopback(hostOf(address))) {
    const what = `the line to the safety kernel (${address}) is not encrypted: whoever is on the way reads jobs, and can forge verdicts`;
    const fix = "give the kernel a certificate (`safety.tls.cert`), and the callers who signed it (`safety.tls.ca`)";
    found.push(danger("safety_in_the_clear", what, fix, "cordum config explain safety.tls.ca"));
  }
  if (unreviewed === null) {
    const what = "whether jobs went out without a verdict could not be found out";
    found.push(caution("bypasses_unknown", what, "use a key that may read", "cordum failopen bypassed"));
  } else if (unreviewed.count > 0) {
    const jobs = `${unreviewed.count}${unreviewed.isMore ? " or more" : ""}`;
    const what = `jobs of your tenant that went out without a verdict and were not reviewed since: ${jobs}`;
    found.push(danger("unreviewed_bypasses", what, "review each of them", "cordum failopen bypassed"));
  }
  return found;
}

const KERNEL_AWAY = { fix: "start the kernel, or look at its address", next: "cordum status" } as const;

/** By what stands in the reason: a kernel that is there but is not trusted, or does not trust, needs no start. */
const KERNEL_FIXES = [
  {
    word: "`safety.token`",
    fix: "give the kernel and the control plane the same `safety.token`, and start anew who has the wrong one",
    next: "cordum config explain safety.token",
  },
  {
    word: "`safety.tls.*`",
    fix: "look at `safety.tls.*` on both sides: the log of the control plane says what is wrong with which certificate",
    next: "cordum config explain safety.tls.ca",
  },
] as const;

function work({ status }: Facts): readonly Finding[] {
  const found: Finding[] = [];
  for (const { scope, engaged_by } of status.kill ?? []) {
    const whose = scope === "*" ? "all tenants" : `tenant ${scope}`;
    const what = `a kill switch keeps back all work of ${whose}, engaged by ${engaged_by}`;
    found.push(danger("killed", what, "release it once it is safe", `cordum kill release --scope '${scope}'`));
  }
  const { dead_letters = 0, backlog_total = 0, workers } = status;
  if (dead_letters > 0) {
    const tenants = Object.entries(status.dead_letters_by_tenant ?? {}).map(([name, count]) => `${name} ${count}`);
    const whose = tenants.length === 0 ? "" : ` (by tenant: ${tenants.slice(0, TENANTS_SHOWN_MAX).join(", ")})`;
    const what = `dead letters that nobody has dealt with: ${dead_letters}${whose}`;
    found.push(danger("dead_letters", what, "retry or drop them; they are removed in time", "cordum dlq list"));
  }
  if (workers !== undefined && backlog_total > 0 && workers.total - workers.leaving === 0) {
    const what = `jobs wait to be sent (${backlog_total}), and no worker has been heard of`;
    found.push(danger("no_workers", what, "start a worker that serves their topic", "cordum worker list"));
  }
  return found;
}

const TENANTS_SHOWN_MAX = 5;

function isLoopbackUrl(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === "localhost" || hostname === "[::1]" || /^127(\.\d{1,3}){3}$/.test(hostname);
}

function danger(code: string, what: string, fix: string, next: string | null): Finding {
  return { level: "danger", code, what, fix, next };
}

function caution(code: string, what: string, fix: string, next: string | null): Finding {
  return { level: "caution", code, what, fix, next };
}
