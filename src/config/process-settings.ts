import { count, type Setting } from "./setting.ts";

export const PROCESS_SETTINGS = [
  {
    name: "profile",
    type: { kind: "choice", choices: ["default", "baseline"], deprecated: { founding: "baseline" } },
    default: "default",
    help: "`baseline` changes every default to the value of the original design, for comparison; `founding` is the deprecated name of `baseline`.",
  },
  {
    name: "name",
    type: { kind: "text", unit: "name" },
    default: null,
    help: "Name of this process in logs and lists; generated from host, pid and start time if not set.",
  },
  {
    name: "data.dir",
    type: { kind: "text", unit: "path" },
    default: ".cordum",
    help: "Data directory of an embedded control plane; locked by one process at a time.",
  },
  {
    name: "http.host",
    type: { kind: "text", unit: "host" },
    default: "127.0.0.1",
    help: "Listen address of the gateway; addresses other than loopback require an API key.",
  },
  {
    name: "http.port",
    type: count("port", 0, 65_535),
    default: 8081,
    help: "Listen port of the gateway; 0 picks a free port and prints it.",
  },
  {
    name: "http.body_bytes_max",
    type: count("bytes", 1_024, 2 * 1024 * 1024),
    default: 1024 * 1024,
    help: "Maximum size of a request body; larger ones are rejected with 413.",
  },
  {
    name: "http.rate_per_s",
    type: count("requests", 1, 1_000_000),
    default: 2_000,
    help: "Requests per second and caller, with a burst of twice as many; more are rejected with 429.",
  },
  {
    name: "nats.url",
    type: { kind: "text", unit: "url" },
    default: null,
    help: "NATS server of a cluster; embedded if not set. Requires `redis.url`.",
  },
  {
    name: "redis.url",
    type: { kind: "text", unit: "url" },
    default: null,
    help: "Redis server of a cluster; embedded if not set. Requires `nats.url`.",
  },
  {
    name: "policy.file",
    type: { kind: "text", unit: "path" },
    default: null,
    help: "Safety policy file; published at start and on change if it differs from the file published last. Without it the published policy stays in force, or a built-in one; `cordum status` shows which.",
  },
  {
    name: "workflows.dir",
    type: { kind: "text", unit: "path" },
    default: null,
    help: "Workflow directory; every `*.yaml`, `*.yml` and `*.json` in it is applied at start and on change.",
  },
  {
    name: "safety.fail_mode",
    type: { kind: "choice", choices: ["closed", "open"] },
    default: "closed",
    help: "What happens while the safety kernel is unavailable: `closed` makes jobs wait; `open` opens a fail-open lease of 30 minutes at start. Also read as `POLICY_CHECK_FAIL_MODE`.",
  },
  {
    name: "safety.address",
    type: { kind: "text", unit: "host" },
    default: null,
    help: "Address of a remote safety kernel over gRPC (`host:port`); the kernel runs in this process if not set.",
  },
  {
    name: "safety.token",
    type: { kind: "secret", charsMin: 16, charsMax: 512 },
    default: null,
    help: "Shared token between a caller and a remote safety kernel; checks without it are rejected. It is never shown and has no flag, because flags are visible in the process list.",
  },
  {
    name: "safety.tls.cert",
    type: { kind: "text", unit: "path" },
    default: null,
    help: "Certificate of this process for the connection to the safety kernel (PEM, with its chain): the server certificate of the kernel, or the client certificate of a caller. Requires `safety.tls.key`.",
  },
  {
    name: "safety.tls.key",
    type: { kind: "text", unit: "path" },
    default: null,
    help: "Private key of `safety.tls.cert` (PEM, without a passphrase).",
  },
  {
    name: "safety.tls.ca",
    type: { kind: "text", unit: "path" },
    default: null,
    help: "CA of the peer certificates (PEM). At a caller it enables TLS and verifies the kernel's certificate and its host name in `safety.address`; at a kernel it requires client certificates.",
  },
  {
    name: "cap.signatures",
    type: { kind: "choice", choices: ["off", "warn", "enforce"] },
    default: "off",
    help: "Handling of NATS packets with a missing or wrong signature: `off` does not verify; `warn` logs a warning and treats them as unsigned; `enforce` rejects them, durable ones with a dead letter, and requires `cap.key`.",
  },
  {
    name: "cap.key",
    type: { kind: "text", unit: "path" },
    default: null,
    help: "Private key that signs the NATS packets of this control plane (PEM, P-256, without a passphrase), the same for all of its processes. Public keys after it in the file are accepted as well, for key rotation.",
  },
  {
    name: "log.level",
    type: { kind: "choice", choices: ["debug", "info", "warn", "error"] },
    default: "info",
    help: "Minimum level of the log lines on stderr.",
  },
] as const satisfies readonly Setting[];
