/** Settings that the process around the flow reads. */
import { count, type Setting } from "./setting.ts";

export const PROCESS_SETTINGS = [
  {
    name: "profile",
    type: { kind: "choice", choices: ["default", "founding"] },
    default: "default",
    help: "`founding` switches every default to the value of the founding documents, so that the two can be compared.",
  },
  {
    name: "name",
    type: { kind: "text", unit: "name" },
    default: null,
    help: "Names this process to operators; made from host, pid and boot when not set.",
  },
  {
    name: "data.dir",
    type: { kind: "text", unit: "path" },
    default: ".cordum",
    help: "The data directory of an embedded control plane; it belongs to one process at a time.",
  },
  {
    name: "http.host",
    type: { kind: "text", unit: "host" },
    default: "127.0.0.1",
    help: "The address the gateway listens on; beyond loopback only where there is an API key.",
  },
  {
    name: "http.port",
    type: count("port", 0, 65_535),
    default: 8081,
    help: "The port the gateway listens on; 0 picks a free one and prints it.",
  },
  {
    name: "http.body_bytes_max",
    type: count("bytes", 1_024, 2 * 1024 * 1024),
    default: 1024 * 1024,
    help: "The largest request body; a larger one is refused with 413.",
  },
  {
    name: "http.rate_per_s",
    type: count("requests", 1, 1_000_000),
    default: 2_000,
    help: "Requests a second that are taken from one caller, twice as many at once after a pause; more are refused with 429.",
  },
  {
    name: "nats.url",
    type: { kind: "text", unit: "url" },
    default: null,
    help: "The NATS server of a cluster; embedded when not set. Goes together with `redis.url`.",
  },
  {
    name: "redis.url",
    type: { kind: "text", unit: "url" },
    default: null,
    help: "The Redis server of a cluster; embedded when not set. Goes together with `nats.url`.",
  },
  {
    name: "policy.file",
    type: { kind: "text", unit: "path" },
    default: null,
    help: "A safety policy: published at start and when it changes, if it differs from the file published last. Without one, what was published stays in force, or a built-in one; `cordum status` says which.",
  },
  {
    name: "workflows.dir",
    type: { kind: "text", unit: "path" },
    default: null,
    help: "A directory of workflows: every `*.yaml`, `*.yml` and `*.json` in it is applied at start, and again when it changes.",
  },
  {
    name: "safety.fail_mode",
    type: { kind: "choice", choices: ["closed", "open"] },
    default: "closed",
    help: "What happens while the safety kernel does not answer: `closed` makes jobs wait; `open` opens a fail-open lease of 30 minutes at start. Also read as `POLICY_CHECK_FAIL_MODE`.",
  },
  {
    name: "safety.address",
    type: { kind: "text", unit: "host" },
    default: null,
    help: "A safety kernel of its own, over gRPC (`host:port`); in this process when not set.",
  },
  {
    name: "safety.token",
    type: { kind: "secret", charsMin: 16, charsMax: 512 },
    default: null,
    help: "What a caller and a safety kernel of its own both know: sent with every check, and a call without it is refused. Never shown; there is no flag for it, since flags are.",
  },
  {
    name: "safety.tls.cert",
    type: { kind: "text", unit: "path" },
    default: null,
    help: "The certificate of this process on the line to the safety kernel (PEM, with what it is signed by): the kernel's own, or what a caller shows to it. Goes together with `safety.tls.key`.",
  },
  {
    name: "safety.tls.key",
    type: { kind: "text", unit: "path" },
    default: null,
    help: "The key of that certificate (PEM, without a passphrase).",
  },
  {
    name: "safety.tls.ca",
    type: { kind: "text", unit: "path" },
    default: null,
    help: "Who signs the certificates of the other side (PEM). At a caller it switches TLS on, for a kernel whose certificate is signed by it and names the host of `safety.address`; at a kernel it lets in only callers that show one.",
  },
  {
    name: "cap.signatures",
    type: { kind: "choice", choices: ["off", "warn", "enforce"] },
    default: "off",
    help: "What becomes of packets on NATS whose signature is missing or wrong: `off` looks at none; `warn` says so and takes them as unsigned; `enforce` refuses them, with a dead letter where nothing may be lost, and needs `cap.key`.",
  },
  {
    name: "cap.key",
    type: { kind: "text", unit: "path" },
    default: null,
    help: "The private key with which the processes of this control plane sign what they send on NATS (PEM, P-256, without a passphrase), the same for all of them. Public keys behind it in the file are taken for ours as well, to change it by.",
  },
  {
    name: "log.level",
    type: { kind: "choice", choices: ["debug", "info", "warn", "error"] },
    default: "info",
    help: "Which log lines are written to stderr.",
  },
] as const satisfies readonly Setting[];
