/** The flags of `--live`, validated before any connection is opened. */
import { isLoopback } from "../../core/model/loopback.ts";
import { PROCESSES_MAX } from "../../lab/live.ts";
import { CliError, EXIT } from "../exit.ts";

export type LiveTarget =
  | { readonly kind: "embedded" }
  | { readonly kind: "cluster"; readonly nats: string; readonly redis: string };

export interface LiveOptions {
  readonly live?: boolean;
  readonly nats?: string;
  readonly redis?: string;
  readonly yesIOwnThis?: boolean;
  readonly processes?: string;
  readonly liveSeconds?: string;
  readonly liveTimes?: string;
}

export interface LiveRequest {
  readonly target: LiveTarget;
  readonly processes: number | null;
  readonly secondsMax: number;
  /** null: the default of the experiment. */
  readonly times: number | null;
}

/** null without `--live`. Throws on invalid combinations and on remote servers without `--yes-i-own-this`. */
export function readLiveOptions(options: LiveOptions, next: string): LiveRequest | null {
  const usageError = (message: string): CliError => new CliError(EXIT.usage, message, next);
  if (options.live !== true) {
    const alone = LIVE_FLAGS.find(([name]) => options[name] !== undefined);
    if (alone !== undefined) throw usageError(`${alone[1]} requires --live`);
    return null;
  }
  const target = targetOf(options, usageError);
  const processes = wholeOf("--processes", options.processes, PROCESSES_MAX, usageError);
  if (target.kind === "embedded" && (processes ?? 1) > 1) {
    throw usageError("the embedded world has one process; remove --processes, or set --nats and --redis");
  }
  const secondsMax = wholeOf("--live-seconds", options.liveSeconds, SECONDS_MAX, usageError) ?? SECONDS_DEFAULT;
  const times = wholeOf("--live-times", options.liveTimes, TIMES_MAX, usageError);
  return { target, processes, secondsMax, times };
}

export const SECONDS_DEFAULT = 60;
export const SECONDS_MAX = 600;
export const TIMES_MAX = 25;

const LIVE_FLAGS = [
  ["nats", "--nats"],
  ["redis", "--redis"],
  ["yesIOwnThis", "--yes-i-own-this"],
  ["processes", "--processes"],
  ["liveSeconds", "--live-seconds"],
  ["liveTimes", "--live-times"],
] as const;

type UsageError = (message: string) => CliError;

function targetOf({ nats, redis, yesIOwnThis }: LiveOptions, usageError: UsageError): LiveTarget {
  if (nats === undefined && redis === undefined) return { kind: "embedded" };
  if (nats === undefined || redis === undefined) {
    const missing = nats === undefined ? "--nats" : "--redis";
    throw usageError(`${missing} is missing; set both servers, or neither for the embedded world`);
  }
  const hosts = [...hostsIn("--nats", nats, usageError), ...hostsIn("--redis", redis, usageError)];
  const remote = hosts.find((host) => !isLoopback(host));
  if (remote !== undefined && yesIOwnThis !== true) {
    throw usageError(
      `\`${remote}\` is a remote server, and a live run puts load on it; ` +
        "pass --yes-i-own-this if the servers are yours and carry no other work",
    );
  }
  return { kind: "cluster", nats, redis };
}

/** NATS accepts several servers separated by commas. */
function hostsIn(flag: string, text: string, usageError: UsageError): readonly string[] {
  return text.split(",").map((one) => {
    const hostname = hostnameIn(one.trim());
    if (hostname === "")
      throw usageError(`${flag} \`${withoutPassword(text)}\` is not a URL; use a value like ${EXAMPLES[flag]}`);
    return hostname;
  });
}

const EXAMPLES: Readonly<Record<string, string>> = {
  "--nats": "nats://127.0.0.1:4222",
  "--redis": "redis://127.0.0.1:6379",
};

function hostnameIn(text: string): string {
  try {
    return new URL(text).hostname;
  } catch {
    return "";
  }
}

const withoutPassword = (text: string): string => text.replace(/\/\/[^/@]*@/, "//");

function wholeOf(flag: string, text: string | undefined, max: number, usageError: UsageError): number | null {
  if (text === undefined) return null;
  const value = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > max) throw usageError(`${flag} \`${text}\` is not a whole number from 1 to ${max}`);
  return value;
}
