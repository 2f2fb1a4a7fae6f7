/** Where `--live` runs: the servers that were named, or a world of its own. Decided before anything is connected. */

import { isLoopback } from "../../core/model/loopback.ts";
import { PROCESSES_MAX } from "../../lab/live.ts";
import { CliError, EXIT } from "../exit.ts";

export type LiveTarget =
  | { readonly kind: "embedded" }
  | { readonly kind: "cluster"; readonly nats: string; readonly redis: string };

/** What was typed; all of it needs `--live`. */
export interface LiveOptions {
  readonly live?: boolean;
  readonly nats?: string;
  readonly redis?: string;
  readonly yesIOwnThis?: boolean;
  readonly processes?: string;
  readonly liveSeconds?: string;
  readonly liveTimes?: string;
}

export interface LiveWish {
  readonly target: LiveTarget;
  readonly processes: number | null;
  readonly secondsMax: number;
  /** null for as often as the experiment likes. */
  readonly times: number | null;
}

/** null without `--live`. Throws on what does not go together, and on servers that may be somebody else's. */
export function readLiveWish(options: LiveOptions, next: string): LiveWish | null {
  const wrong = (message: string): CliError => new CliError(EXIT.usage, message, next);
  if (options.live !== true) {
    const alone = LIVE_FLAGS.find(([name]) => options[name] !== undefined);
    if (alone !== undefined) throw wrong(`${alone[1]} is for live runs: give --live, too`);
    return null;
  }
  const target = targetOf(options, wrong);
  const processes = wholeOf("--processes", options.processes, PROCESSES_MAX, wrong);
  if (target.kind === "embedded" && (processes ?? 1) > 1) {
    throw wrong("the embedded world belongs to one process: leave --processes out, or give --nats and --redis");
  }
  const secondsMax = wholeOf("--live-seconds", options.liveSeconds, SECONDS_MAX, wrong) ?? SECONDS_DEFAULT;
  const times = wholeOf("--live-times", options.liveTimes, TIMES_MAX, wrong);
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

type Wrong = (message: string) => CliError;

function targetOf({ nats, redis, yesIOwnThis }: LiveOptions, wrong: Wrong): LiveTarget {
  if (nats === undefined && redis === undefined) return { kind: "embedded" };
  if (nats === undefined || redis === undefined) {
    const missing = nats === undefined ? "--nats" : "--redis";
    throw wrong(`${missing} is missing: a live run takes both servers, or neither for the embedded world`);
  }
  const hosts = [...hostsIn("--nats", nats, wrong), ...hostsIn("--redis", redis, wrong)];
  const far = hosts.find((host) => !isLoopback(host));
  if (far !== undefined && yesIOwnThis !== true) {
    throw wrong(
      `\`${far}\` is not this machine: a live run loads the servers that it is given; ` +
        "if they are yours, and nobody else's work is on them, give --yes-i-own-this",
    );
  }
  return { kind: "cluster", nats, redis };
}

/** Several servers of NATS are separated by commas. */
function hostsIn(flag: string, text: string, wrong: Wrong): readonly string[] {
  return text.split(",").map((one) => {
    const hostname = hostnameIn(one.trim());
    if (hostname === "") throw wrong(`${flag} \`${withoutPassword(text)}\`: give a URL, such as ${EXAMPLES[flag]}`);
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

function wholeOf(flag: string, text: string | undefined, max: number, wrong: Wrong): number | null {
  if (text === undefined) return null;
  const value = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > max) throw wrong(`${flag} \`${text}\`: give a whole number from 1 to ${max}`);
  return value;
}
