import { describe, expect, test } from "vitest";
import { diagnose, type Facts, type StatusFacts } from "../../../src/gateway/findings/findings.ts";

const FINE: StatusFacts = {
  version: "1.0.0",
  mode: "embedded",
  ready: true,
  needs_key: true,
  warnings: [],
  dead_letters: 0,
  backlog_total: 0,
  workers: { total: 1, leaving: 0 },
  safety: { breaker: "closed", fail_open: [] },
};
const SERVERS = { nats: { version: "2.12.1" }, redis: { durability: "always", maxmemory_policy: "noeviction" } };

function codes(status: Partial<StatusFacts>, facts: Partial<Facts> = {}): readonly string[] {
  const all = {
    lock: null,
    unreviewed: { count: 0, isMore: false },
    url: "http://127.0.0.1:8081",
    clientVersion: "1.0.0",
    ...facts,
  };
  return diagnose({ ...all, status: { ...FINE, ...status } }).map(({ level, code }) => `${level} ${code}`);
}

const cluster = (redis: Partial<NonNullable<StatusFacts["servers"]>["redis"]>, nats = "2.12.1") =>
  codes({ mode: "cluster", servers: { nats: { version: nats }, redis: { ...SERVERS.redis, ...redis } } });

test("a healthy control plane has no findings", () => {
  expect(codes({})).toEqual([]);
});

test("an engaged kill switch is a danger", () => {
  expect(codes({ kill: [{ scope: "*", engaged_by: "ann" }] })).toEqual(["danger killed"]);
});

describe("durability of a cluster (L46, L47, L48)", () => {
  test.each([
    [{}, "2.12.1", []],
    [{ durability: "everysec" }, "2.12.1", ["danger redis_loses"]],
    [{ durability: "os" }, "2.12.1", ["danger redis_loses"]],
    [{ durability: "none" }, "2.12.1", ["danger redis_loses"]],
    [{ durability: "unknown" }, "2.12.1", ["caution redis_durability_unknown"]],
    [{ maxmemory_policy: "allkeys-lru" }, "2.12.1", ["danger redis_evicts"]],
    [{ maxmemory_policy: null }, "2.12.1", ["caution redis_eviction_unknown"]],
    [{ went_back_at: null }, "2.12.1", []],
    [{ went_back_at: "2026-11-17T20:00:00.000Z" }, "2.12.1", ["danger redis_went_back"]],
  ])("redis with %o", (redis, nats, expected) => {
    expect(cluster(redis, nats).filter((code) => code.includes("redis"))).toEqual(expected);
  });

  test.each([
    ["2.9.10", "danger nats_is_old"],
    ["1.4.1", "danger nats_is_old"],
    ["2.10.0", "caution nats_sync_unknown"],
    ["3.0.0-beta", "caution nats_sync_unknown"],
  ])("nats-server %s: %s", (version, expected) => {
    expect(cluster({}, version)).toEqual([expected]);
  });

  test("a control plane that does not report its servers is a caution", () => {
    expect(codes({ mode: "cluster", warnings: ["redis may evict"] })).toEqual(["caution warning", "caution warning"]);
    // Keys of a single tenant do not see the servers.
    expect(codes({ mode: "cluster", tenant: "acme" })).toEqual([]);
  });
});

describe("other findings", () => {
  const DISK = { path: "/data", free_bytes: 4e9, size_bytes: 100e9 };
  const UP = { breaker: "closed", fail_open: [] };
  const lease = { id: "l1", scope: "*", ends_at: "soon" };
  test.each<[string, Partial<StatusFacts>, Partial<Facts>, readonly string[]]>([
    ["no keys on loopback", { needs_key: false }, {}, ["caution no_keys"]],
    ["no keys on ::1", { needs_key: false }, { url: "http://[::1]:8081" }, ["caution no_keys"]],
    ["no keys on another host", { needs_key: false }, { url: "https://c.example" }, ["danger no_keys_beyond_loopback"]],
    [
      "no keys on a host name that resembles loopback",
      { needs_key: false },
      { url: "http://127.0.0.1.example" },
      ["danger no_keys_beyond_loopback"],
    ],
    ["a lease", { safety: { breaker: "closed", fail_open: [lease] } }, {}, ["danger fail_open"]],
    ["a breaker", { safety: { breaker: "open", breaker_reason: "late" } }, {}, ["danger safety_unavailable"]],
    [
      "an unencrypted connection to a remote kernel",
      { safety_address: "10.0.0.7:50051", safety_line: "plain" },
      {},
      ["danger safety_in_the_clear"],
    ],
    ["a remote kernel over TLS", { safety_address: "10.0.0.7:50051", safety_line: "tls" }, {}, []],
    ["a kernel on loopback", { safety_address: "[::1]:50051", safety_line: "plain" }, {}, []],
    ["a bus without signatures", { signatures: { mode: "off", has_key: false } }, {}, ["caution packets_unsigned"]],
    ["a bus that only warns", { signatures: { mode: "warn", has_key: true } }, {}, ["caution signatures_not_enforced"]],
    ["a bus that enforces signatures", { signatures: { mode: "enforce", has_key: true } }, {}, []],
    ["a bypass", {}, { unreviewed: { count: 2, isMore: true } }, ["danger unreviewed_bypasses"]],
    ["unknown bypasses", {}, { unreviewed: null }, ["caution bypasses_unknown"]],
    ["dead letters", { dead_letters: 3 }, {}, ["danger dead_letters"]],
    ["not ready", { ready: false, not_ready_because: "the store" }, {}, ["danger not_ready"]],
    ["another version", { version: "0.9.0" }, {}, ["caution version_differs"]],
    ["a backlog without workers", { backlog_total: 1, workers: { total: 0, leaving: 0 } }, {}, ["danger no_workers"]],
    [
      "a backlog with draining workers only",
      { backlog_total: 1, workers: { total: 2, leaving: 2 } },
      {},
      ["danger no_workers"],
    ],
    ["no backlog and no workers", { workers: { total: 0, leaving: 0 } }, {}, []],
    ["a disk nearly full", { disk: { ...DISK, low: true } }, {}, ["danger disk_low"]],
    ["a disk with space", { disk: { ...DISK, low: false } }, {}, []],
    ["a kernel that does not answer", { safety: { ...UP, unreachable: "refused" } }, {}, ["danger safety_unavailable"]],
    ["a flood", { open_jobs: { total: 600, by_tenant: { b: 50, a: 550 } } }, {}, ["caution tenant_flood"]],
    ["few open jobs", { open_jobs: { total: 499, by_tenant: { a: 499 } } }, {}, []],
    ["tenants that share the load", { open_jobs: { total: 2_000, by_tenant: { a: 1_500, b: 500 } } }, {}, []],
    ["an old version with few fields", { safety: undefined, workers: undefined } as never, {}, []],
  ])("%s", (_, status, facts, expected) => {
    expect(codes(status, facts)).toEqual(expected);
  });

  test.each([
    ["connection refused", "start the kernel"],
    ["does not know this process: `safety.token` is missing or wrong", "the same `safety.token`"],
    ["no connection that both sides trust (`safety.tls.*`)", "names the certificate"],
  ])("a kernel that is unavailable with `%s` has its own fix", (breaker_reason, fix) => {
    const status = { ...FINE, safety: { breaker: "open", breaker_reason } };
    const [found] = diagnose({
      status,
      lock: null,
      unreviewed: { count: 0, isMore: false },
      url: "http://[::1]",
      clientVersion: "1.0.0",
    });
    expect(found?.fix).toContain(fix);
  });

  test("names the tenant that floods, with the command that lists its jobs", () => {
    const status = { ...FINE, open_jobs: { total: 600, by_tenant: { b: 50, a: 550 } } };
    const [found] = diagnose({
      status,
      lock: null,
      unreviewed: { count: 0, isMore: false },
      url: "http://[::1]",
      clientVersion: "1.0.0",
    });
    expect(found).toMatchObject({
      what: "tenant a has 550 open jobs, 91 % of all",
      next: "CORDUM_TENANT=a cordum job list",
    });
  });

  test.each([
    [{ waiters: 9, busy_last_minute: 59 }, []],
    [{ waiters: 10, busy_last_minute: 0 }, ["caution lock_hot"]],
    [{ waiters: 0, busy_last_minute: 60 }, ["caution lock_hot"]],
  ])("a lock with %o is contended: %o (L19)", (contention, expected) => {
    const lock = { key: "k", holder: "control-1", expires_at: "2026-11-19T00:00:00.000Z", ...contention };
    expect(codes({}, { lock })).toEqual(expected);
  });

  test("sorts dangers first, each with a fix", () => {
    const status = { ...FINE, needs_key: false, dead_letters: 2, dead_letters_by_tenant: { acme: 2 } };
    const found = diagnose({ status, lock: null, unreviewed: null, url: "http://localhost", clientVersion: "1.0.0" });
    expect(found.map(({ level }) => level)).toEqual(["danger", "caution", "caution"]);
    expect(found.every(({ fix, what }) => fix !== "" && what !== "")).toBe(true);
    expect(found[0]).toMatchObject({ what: "unresolved dead letters: 2 (by tenant: acme 2)" });
  });
});
