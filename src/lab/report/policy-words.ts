/** What a retry policy does, for somebody who has never heard of one. */
import { interval, parsePolicy } from "../../core/retry/policies.ts";
import { formatMs } from "./numbers.ts";

/** Empty for what is no policy. */
export function describePolicy(policy: string): string {
  const first = intervalOf(policy, 1);
  const late = intervalOf(policy, LATE);
  if (first === null || late === null) return "";
  const begins = `everybody comes back after ${rangeOf(first)}`;
  if (late.hiMs <= first.hiMs) return isChance(first) ? `${begins}, by chance` : begins;
  if (isChance(first) && isChance(late)) return `${begins}, later ${rangeOf(late)}, by chance`;
  return `${begins}${isChance(first) ? ", by chance" : ""}; later after ${rangeOf(late)}`;
}

/** By then every delay is as long as it gets. */
const LATE = 40;

function intervalOf(policy: string, attempt: number): Range | null {
  try {
    const parsed = parsePolicy(policy);
    // What the first delay was is not known; it can have been no shorter than this.
    return interval(parsed, attempt, attempt === 1 && "baseMs" in parsed ? parsed.baseMs : undefined);
  } catch {
    return null;
  }
}

interface Range {
  readonly loMs: number;
  readonly hiMs: number;
}

function rangeOf({ loMs, hiMs }: Range): string {
  if (hiMs === loMs) return `exactly ${formatMs(hiMs)}`;
  return loMs <= 1 ? `up to ${formatMs(hiMs)}` : `${formatMs(loMs)} to ${formatMs(hiMs)}`;
}

const isChance = ({ loMs, hiMs }: Range): boolean => hiMs > loMs;
