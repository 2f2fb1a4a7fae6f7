import type { Tone } from "../../kit/badge.tsx";

/** `key created` and not `key key created`; `deny` and not `decision deny`. */
export function titleOf(kind: string, what: string): string {
  const [first, second] = [kind.replaceAll("_", " "), what.replaceAll("_", " ")];
  return kind === "decision" || second.includes(first) ? second : `${first} ${second}`;
}

const BAD = /^(deny|denied|rejected|engaged|bypassed|open|opened|revoked|key revoked|refused|rolled_back|dead)/;
const GOOD = /^(approved|closed|released|promoted|proved)/;

export function toneOfAction(what: string): Tone {
  if (BAD.test(what)) return "bad";
  if (what === "require_approval") return "warn";
  return GOOD.test(what) ? "good" : "quiet";
}
