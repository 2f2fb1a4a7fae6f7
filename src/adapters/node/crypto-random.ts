import { randomFillSync } from "node:crypto";
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";

/**
 * Cryptographic random numbers, read from the system in blocks.
 *
 * Ids are 26 characters: the time, then 80 random bits. Ids created together are adjacent in an index, so inserts stay at
 * its end.
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
      // 16 characters of 5 bits: five from each of three words, one from a fourth.
      return time + fiveOf(word()) + fiveOf(word()) + fiveOf(word()) + DIGITS[word() & 31]!;
    },
  };
}

const POOL_WORDS = 2_048;
/** Ascending character codes, so that ids sort by time; without letters that look like digits. */
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
