import { randomFillSync } from "node:crypto";
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";

/**
 * Cryptographic chance, fetched a few thousand bytes at a time.
 *
 * Ids are 26 characters: the time, then 80 random bits. Those made together stand together in an index, which keeps
 * inserts at its end and cheap.
 */
export function cryptoRandom(clock: Clock): Random {
  const pool = new Uint32Array(POOL_WORDS);
  let used = POOL_WORDS;
  const word = (): number => {
    if (used === POOL_WORDS) {
      randomFillSync(pool);
      used = 0;
    }
    return pool[used++]!;
  };
  let timeMs = -1;
  let time = "";
  return {
    next: () => ((word() >>> 5) * 2 ** 26 + (word() >>> 6)) / 2 ** 53,
    id: () => {
      const nowMs = clock.now();
      if (nowMs !== timeMs) {
        timeMs = nowMs;
        time = timeText(nowMs);
      }
      // Five characters of five bits each from a word, three times, and one more: 16 characters.
      return time + fiveOf(word()) + fiveOf(word()) + fiveOf(word()) + DIGITS[word() & 31]!;
    },
  };
}

const POOL_WORDS = 2_048;
/** In the order of their character codes, so that ids sort by time; letters that look like digits are left out. */
const DIGITS = "0123456789abcdefghjkmnpqrstvwxyz";
const TIME_LENGTH = 10;

function fiveOf(bits: number): string {
  return (
    DIGITS[bits & 31]! +
    DIGITS[(bits >>> 5) & 31]! +
    DIGITS[(bits >>> 10) & 31]! +
    DIGITS[(bits >>> 15) & 31]! +
    DIGITS[(bits >>> 20) & 31]!
  );
}

function timeText(ms: number): string {
  let text = "";
  for (let at = 0, rest = Math.max(0, Math.floor(ms)); at < TIME_LENGTH; at++, rest = Math.floor(rest / 32)) {
    text = DIGITS[rest % 32]! + text;
  }
  return text;
}
