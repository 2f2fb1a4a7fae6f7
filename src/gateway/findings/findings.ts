/** Findings from the status of a control plane that responds. */
import { hostOf, isLoopback } from "../../core/model/loopback.ts";
import { caution, type DiskFacts, danger, diskLow, type Finding } from "./finding.ts";

/** The used part of `GET /api/v1/status`. Other versions may lack fields. */
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
    readonly redis: {
      readonly durability: string;
      readonly maxmemory_policy: string | null;
      readonly went_back_at?: string | null;
    };
  };
  readonly signatures?: { readonly mode: string; readonly has_key: boolean };
  readonly dead_letters?: number;
  readonly dead_letters_by_tenant?: Readonly<Record<string, number>>;
  readonly backlog_total?: number;
  readonly kill?: readonly {
    readonly scope: string;
    readonly engaged_by: string;
    readonly engaged_by_name?: string | null;
    readonly engaged_at?: string;
  }[];
  readonly workers?: { readonly total: number; readonly leaving: number };
  readonly disk?: DiskFacts & { readonly low: boolean };
  readonly open_jobs?: { readonly total: number; readonly by_tenant: Readonly<Record<string, number>> };
  readonly safety_address?: string;
  readonly safety_line?: string;
  readonly safety?: {
    readonly breaker?: string;
    readonly breaker_reason?: string;
    readonly unreachable?: string;
    readonly fail_open?: readonly { readonly id: string; readonly scope: string; readonly ends_at: string }[];
  };
}

/** The used part of `GET /api/v1/locks`. */
export interface LockFacts {
  readonly key: string;
  readonly holder: string | null;
  readonly expires_at: string | null;
  readonly waiters: number;
  readonly busy_last_minute: number;
}

export interface Facts {
  readonly status: StatusFacts;
  /** The most contended lock; null if there is none or the caller may not see locks. */
  readonly lock: LockFacts | null;
  /** Bypassed jobs of the tenant without a review; null if unknown. */
  readonly unreviewed: { readonly count: number; readonly isMore: boolean } | null;
  /** The address of the control plane. */
  readonly url: string;
  readonly clientVersion: string;
}

export function diagnose(facts: Facts): readonly Finding[] {
  const found = [
    ...progress(facts),
    ...disk(facts),
    ...access(facts),
    ...durability(facts),
    ...bus(facts),
    ...safety(facts),
    ...work(facts),
    ...floods(facts),
    ...hotLock(facts),
  ];
  return [...found.filter(({ level }) => level === "danger"), ...found.filter(({ level }) => level === "caution")];
}

function progress({ status, clientVersion }: Facts): readonly Finding[] {
  const found: Finding[] = [];
  if (status.ready === false) {
    const what = `the control plane is not ready: ${status.not_ready_because ?? "no reason given"}`;
    found.push(danger("not_ready", what, "check the store and the log of the process", "cordum status"));
  }
  if (status.version !== undefined && status.version !== clientVersion) {
    const what = `the control plane has version ${status.version}, this client ${clientVersion}`;
    found.push(caution("version_differs", what, "use the same version for both", "cordum --version"));
  }
  return found;
}

function disk({ status: { disk } }: Facts): readonly Finding[] {
  return disk?.low === true ? [diskLow(disk)] : [];
}

/** A tenant with most of the open jobs. */
function floods({ status: { open_jobs } }: Facts): readonly Finding[] {
  const [first] = Object.entries(open_jobs?.by_tenant ?? {}).sort(([, a], [, b]) => b - a);
  if (open_jobs === undefined || first === undefined) return [];
  const [tenant, count] = first;
  const share = count / open_jobs.total;
  if (count < FLOOD.jobsMin || share < FLOOD.shareMin) return [];
  const what = `tenant ${tenant} has ${count} open jobs, ${Math.floor(100 * share)} % of all`;
  const fix =
    `find out what submits them; \`orgs.${tenant}.limits.backlog_max\` limits its open jobs, ` +
    `\`orgs.${tenant}.limits.max_concurrent_jobs\` those with workers`;
  return [caution("tenant_flood", what, fix, `CORDUM_TENANT=${tenant} cordum job list`)];
}

const FLOOD = { jobsMin: 500, shareMin: 0.8 } as const;

function hotLock({ lock }: Facts): readonly Finding[] {
  if (lock === null || (lock.waiters < HOT_LOCK.waitersMin && lock.busy_last_minute < HOT_LOCK.busyMin)) return [];
  const { key, holder, expires_at, waiters, busy_last_minute } = lock;
  const held = holder === null ? "" : `, held by ${holder} until ${expires_at}`;
  const what = `the lock ${key} is contended: ${waiters} waiters, ${busy_last_minute} busy attempts in the last minute${held}`;
  const fix =
    "if the holder does not progress, restart its process: the lock is free once its lease ends; otherwise spread the retries " +
    "(`retry.lock_busy.policy`) or let attempts wait in the queue (`run_lock.engine_wait_ms`), after `cordum lab replay`";
  return [caution("lock_hot", what, fix, "cordum lock list", { count: waiters })];
}

/** A lock that one burst of results passes without retries is below both. */
const HOT_LOCK = { waitersMin: 10, busyMin: 60 } as const;

function access({ status, url }: Facts): readonly Finding[] {
  if (status.needs_key !== false) return [];
  const next = "cordum key create --tenant '*' --role admin";
  if (isLoopbackUrl(url)) {
    const what = "no API key exists: the start-up token in the data directory has admin access";
    return [caution("no_keys", what, "create an API key before other users get access to this machine", next)];
  }
  const what = `no API key exists and the gateway is reachable at ${url}: every client has admin access`;
  return [
    danger("no_keys_beyond_loopback", what, "create an API key; once one exists, every request requires a key", next),
  ];
}

function durability({ status: { servers, mode, tenant = "*", warnings = [] } }: Facts): readonly Finding[] {
  if (servers === undefined) {
    // Keys of a single tenant do not see the servers.
    const unknown =
      mode === "cluster" && tenant === "*" ? ["this version does not report the durability of its servers"] : [];
    return [...unknown, ...warnings].map((what) => caution("warning", what, "see docs/operations.md", "cordum status"));
  }
  // The warnings of a cluster repeat these findings.
  return [...redisFindings(servers.redis), ...natsFindings(servers.nats.version)];
}

type RedisFacts = NonNullable<StatusFacts["servers"]>["redis"];

function redisFindings({ durability, maxmemory_policy, went_back_at = null }: RedisFacts): Finding[] {
  const found: Finding[] = [];
  if (went_back_at !== null) {
    const what = `redis went back in time: at ${went_back_at} it lacked writes that it had acknowledged`;
    const fix =
      "look for a failover to a stale replica, a restored snapshot or a power failure; submit lost jobs again with their " +
      "idempotency keys, verify the audit log against a saved checkpoint, then restart the process";
    found.push(danger("redis_went_back", what, fix, "cordum audit verify"));
  }
  if (maxmemory_policy === null) {
    const what = "redis does not report its maxmemory-policy: an eviction policy loses jobs";
    found.push(caution("redis_eviction_unknown", what, "set `maxmemory-policy noeviction`", null));
  } else if (maxmemory_policy !== "noeviction") {
    const what = `redis evicts keys (maxmemory-policy ${maxmemory_policy}): a full server loses jobs`;
    const next = "redis-cli config set maxmemory-policy noeviction";
    found.push(
      danger("redis_evicts", what, "set `maxmemory-policy noeviction`, also in the config file of redis", next),
    );
  }
  const fix = "set `appendonly yes` and `appendfsync always`, also in the config file of redis";
  const lost = REDIS_LOSES[durability];
  if (lost !== undefined) {
    const next = `redis-cli config set ${durability === "none" ? "appendonly yes" : "appendfsync always"}`;
    found.push(danger("redis_loses", `a power failure at redis loses ${lost}`, fix, next));
  } else if (durability !== "always") {
    const what = "redis does not report its durability settings";
    found.push(caution("redis_durability_unknown", what, fix, null));
  }
  return found;
}

const REDIS_LOSES: Readonly<Record<string, string>> = {
  everysec: "the last second of acknowledged jobs (`appendfsync everysec`)",
  os: "writes that the operating system has not flushed (`appendfsync no`)",
  none: "everything since the last snapshot, as does a restart (`appendonly no`)",
};

function natsFindings(version: string): Finding[] {
  const fix = "run nats-server with `jetstream { sync_interval: always }`";
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major < 2 || (major === 2 && minor < 10)) {
    const what = `nats-server ${version} syncs every two minutes and has no \`sync_interval\`: a power failure may lose messages`;
    return [danger("nats_is_old", what, `upgrade to 2.10 or newer and ${fix}`, null)];
  }
  const what = "nats-server does not report its `sync_interval`; with the default a power failure may lose two minutes";
  return [caution("nats_sync_unknown", what, fix, null)];
}

/** The access rules of NATS are not known here. */
function bus({ status: { signatures } }: Facts): readonly Finding[] {
  if (signatures === undefined || signatures.mode === "enforce") return [];
  const next = "cordum config explain cap.signatures";
  if (signatures.mode === "warn") {
    const what = "packets without a valid signature are accepted (`cap.signatures: warn`)";
    const first = signatures.has_key ? "" : "set `cap.key`; ";
    const fix = `${first}set \`enforce\` once \`cordum_bus_signature_failures_total\` no longer increases`;
    return [caution("signatures_not_enforced", what, fix, next)];
  }
  const what = "packets are not verified: every NATS client can submit jobs and send results for other jobs";
  return [caution("packets_unsigned", what, "require credentials at NATS, or enable packet signatures", next)];
}

function safety({ status, unreviewed }: Facts): readonly Finding[] {
  const found: Finding[] = [];
  for (const { id, scope, ends_at } of status.safety?.fail_open ?? []) {
    const whose = scope === "*" ? "all tenants" : `tenant ${scope}`;
    const what = `a fail-open lease dispatches jobs of ${whose} unchecked while the kernel is unavailable, until ${ends_at}`;
    found.push(
      danger("fail_open", what, "close the lease once the kernel is available", `cordum failopen close ${id}`, { id }),
    );
  }
  const { breaker, breaker_reason, unreachable } = status.safety ?? {};
  const isOpen = breaker !== undefined && breaker !== "closed";
  if (isOpen || unreachable !== undefined) {
    const why = isOpen ? (breaker_reason ?? "no reason given") : unreachable;
    const what = `the safety kernel is unavailable (${isOpen ? `breaker ${breaker}: ` : ""}${why}); jobs wait`;
    const { fix, next, ...known } = KERNEL_FIXES.find(({ mention }) => why?.includes(mention)) ?? KERNEL_DOWN;
    found.push(danger("safety_unavailable", what, fix, next, "about" in known ? known.about : undefined));
  }
  const { safety_address: address, safety_line } = status;
  if (address !== undefined && safety_line === "plain" && !isLoopback(hostOf(address))) {
    const what = `the connection to the safety kernel (${address}) is not encrypted: jobs can be read and decisions forged in transit`;
    const fix = "set `safety.tls.cert` and `safety.tls.key` at the kernel, and `safety.tls.ca` at its callers";
    found.push(danger("safety_in_the_clear", what, fix, "cordum config explain safety.tls.ca"));
  }
  if (unreviewed === null) {
    const what = "jobs dispatched without a safety check could not be counted";
    found.push(caution("bypasses_unknown", what, "use a key with read access", "cordum failopen bypassed"));
  } else if (unreviewed.count > 0) {
    const jobs = `${unreviewed.count}${unreviewed.isMore ? " or more" : ""}`;
    const what = `jobs of your tenant dispatched without a safety check and not reviewed: ${jobs}`;
    found.push(
      danger("unreviewed_bypasses", what, "review each job", "cordum failopen bypassed", { count: unreviewed.count }),
    );
  }
  return found;
}

const KERNEL_DOWN = { fix: "start the kernel, or check its address", next: "cordum status" } as const;

/** Fixes for a kernel that runs but fails authentication, by setting named in the breaker reason. */
const KERNEL_FIXES = [
  {
    mention: "stopped by the demo",
    fix: "start it again",
    next: "cordum demo start-kernel",
    about: { id: "demo" },
  },
  {
    mention: "`safety.token`",
    fix: "set the same `safety.token` at the kernel and the control plane, and restart the process with the wrong one",
    next: "cordum config explain safety.token",
  },
  {
    mention: "`safety.tls.*`",
    fix: "check `safety.tls.*` on both sides; the log of the control plane names the certificate and the error",
    next: "cordum config explain safety.tls.ca",
  },
] as const;

function work({ status }: Facts): readonly Finding[] {
  const found: Finding[] = [];
  for (const { scope, engaged_by, engaged_by_name: name, engaged_at } of status.kill ?? []) {
    const whose = scope === "*" ? "all tenants" : `tenant ${scope}`;
    const what = `a kill switch stops the dispatch of ${whose}, engaged by ${name ?? engaged_by}`;
    found.push(
      danger("killed", what, "release the kill switch once it is safe", `cordum kill release --scope '${scope}'`, {
        id: scope,
        ...(engaged_at && { since: engaged_at }),
      }),
    );
  }
  const { dead_letters = 0, backlog_total = 0, workers } = status;
  if (dead_letters > 0) {
    const tenants = Object.entries(status.dead_letters_by_tenant ?? {}).map(([name, count]) => `${name} ${count}`);
    const whose = tenants.length === 0 ? "" : ` (by tenant: ${tenants.slice(0, TENANTS_SHOWN_MAX).join(", ")})`;
    const what = `unresolved dead letters: ${dead_letters}${whose}`;
    found.push(
      danger("dead_letters", what, "retry or drop them before their retention ends", "cordum dlq groups", {
        count: dead_letters,
      }),
    );
  }
  if (workers !== undefined && backlog_total > 0 && workers.total - workers.leaving === 0) {
    const what = `${backlog_total} jobs are queued, and no worker is connected`;
    found.push(
      danger("no_workers", what, "start a worker for their topics", "cordum worker list", {
        count: backlog_total,
      }),
    );
  }
  return found;
}

const TENANTS_SHOWN_MAX = 5;

export function isLoopbackUrl(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === "localhost" || hostname === "[::1]" || /^127(\.\d{1,3}){3}$/.test(hostname);
}
