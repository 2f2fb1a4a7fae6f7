/**
 * Secrets out of what people and machines get to see: log lines, audit, views, problem documents, notices.
 *
 * 1. By name: what stands under `password`, `token`, `api_key`, `Authorization`, `cookie` and the like, at any depth.
 * 2. By look: private keys, JSON web tokens, keys of well-known services and our own, passwords in addresses and in
 *    `name=value`, wherever they stand, in names too.
 * 3. By place: the paths of the setting `redaction.paths`, such as `input.card.number`; `*` stands for any one step.
 * 4. It never throws, and what it does is bounded: what is too deep or too much is cut, and says so.
 *
 * Records stay whole: a retry needs its input. Only what is shown passes here.
 */
export const REDACTED = "[redacted]";

export interface RedactOptions {
  /** Paths to leave out, see 3. */
  readonly paths?: readonly string[];
  /** Where the value stands: `input` for a job's input, so that `input.card` finds its `card`. */
  readonly at?: string;
}

/** A copy of a JSON value without its secrets. */
export function redact(value: unknown, options: RedactOptions = {}): unknown {
  const paths = (options.paths ?? []).map((path) => path.split("."));
  const budget: Budget = { nodes: NODES_MAX, chars: CHARS_MAX };
  return cleaned(value, narrowed(paths, options.at ? options.at.split(".") : []), 0, budget);
}

/** A text without what looks like a secret. */
export function redactText(text: string): string {
  if (text.length < SHORTEST || !SUSPECT.test(text)) return text;
  let clean = text;
  for (const { look, pattern, by } of PATTERNS) if (look.test(clean)) clean = clean.replace(pattern, by);
  return clean;
}

/** Whether what stands under this name is a secret. */
export function isSecretName(name: string): boolean {
  if (name.length > NAME_LENGTH_MAX || !SUSPECT_NAME.test(name)) return false;
  const words = name
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replace(/[^A-Za-z0-9]+/g, "_")
    .toLowerCase();
  return SECRET_NAME.test(words);
}

interface Budget {
  nodes: number;
  chars: number;
}

/** `paths` are those that lead on from here; one with no step left means this very value. */
function cleaned(value: unknown, paths: readonly Path[], depth: number, budget: Budget): unknown {
  if (paths.some((path) => path.length === 0)) return REDACTED;
  if (typeof value === "string") return cleanText(value, budget);
  if (typeof value !== "object" || value === null) return typeof value === "bigint" ? String(value) : value;
  if (depth >= DEPTH_MAX || budget.nodes <= 0) return CUT;
  if (Array.isArray(value)) {
    const items: unknown[] = [];
    for (const [at, item] of value.entries()) {
      if (budget.nodes-- <= 0) return [...items, CUT];
      items.push(cleaned(item, narrowed(paths, [String(at)]), depth + 1, budget));
    }
    return items;
  }
  const entries: [string, unknown][] = [];
  for (const [name, item] of Object.entries(value)) {
    if (budget.nodes-- <= 0) {
      entries.push(["…", CUT]);
      break;
    }
    const isSecret = isSecretName(name) && typeof item !== "boolean" && item !== null && item !== undefined;
    entries.push([redactText(name), isSecret ? REDACTED : cleaned(item, narrowed(paths, [name]), depth + 1, budget)]);
  }
  return Object.fromEntries(entries);
}

function cleanText(text: string, budget: Budget): string {
  const left = Math.max(0, budget.chars);
  budget.chars -= text.length;
  // A secret that lies across the cut must not show its first half: so much is cut away with it.
  if (text.length > left) return `${redactText(text.slice(0, left)).slice(0, -CUT_MARGIN)}${CUT}`;
  return redactText(text);
}

type Path = readonly string[];

function narrowed(paths: readonly Path[], steps: Path): readonly Path[] {
  if (paths.length === 0) return paths;
  return steps.reduce<readonly Path[]>(
    (left, step) => left.filter(([first]) => first === step || first === "*").map((path) => path.slice(1)),
    paths,
  );
}

/** Nearly every name and text is known to be harmless by one look: true wherever one of the patterns could match. */
const SUSPECT_NAME = /pass|pwd|secret|cred|auth|cookie|otp|cv[vc]|key|token|jwt|bearer/i;
const SUSPECT =
  /-----BEGIN|eyJ|A[A-Z]{3}[A-Z0-9]{16}|cordum_|AIza|gh[a-z]_|github_pat_|glpat-|xox|xapp|[sr]k[-_]|whsec_|:\/\/|\/services\/|[Bb][Ee][Aa][Rr][Ee][Rr]|[Bb][Aa][Ss][Ii][Cc]|=|"\s{0,8}:/;

const SECRET_NAME = new RegExp(
  `(^|_)(${[
    "password|passwd|pwd|passphrase|passcode|secrets?|credentials?|authorization|cookies?|otp|cvv|cvc",
    "(api|access|private|secret|signing|encryption|client|auth|service|account)_?keys?",
    "(access|refresh|auth|id|session|bearer|api|csrf)_?tokens?",
  ].join("|")})(_|$)|(^|_)(token|jwt|bearer)$`,
);

interface Pattern {
  /** Cheap, and true wherever the pattern could match. */
  readonly look: RegExp;
  readonly pattern: RegExp;
  readonly by: string;
}

/** Each is tried once per word, and what follows its beginning is bounded or eaten: no text makes them slow. */
const PATTERNS: readonly Pattern[] = [
  {
    look: /-----BEGIN/,
    pattern: /-----BEGIN [A-Z0-9 ]{1,64}-----[\s\S]*?(?:-----END [A-Z0-9 ]{1,64}-----|$)/g,
    by: REDACTED,
  },
  { look: /eyJ/, pattern: /(?<![\w-])eyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)*/g, by: REDACTED },
  { look: /A[A-Z]{3}[A-Z0-9]{16}/, pattern: /\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{16}\b/g, by: REDACTED },
  { look: /cordum_/, pattern: /(cordum_[0-9a-z]{1,36}_)[0-9A-Za-z]{16,}/g, by: `$1${REDACTED}` },
  { look: /AIza/, pattern: /AIza[\w-]{30,}/g, by: REDACTED },
  { look: /gh|glpat/, pattern: /(?:\bgh[a-z]_|github_pat_|glpat-)[\w-]{16,}/g, by: REDACTED },
  { look: /xox|xapp/, pattern: /\bx(?:ox[a-z]|app)-[\w-]{10,}/g, by: REDACTED },
  { look: /[sr]k[-_]|whsec_/, pattern: /\b(?:sk-|[sr]k_(?:live|test)_|whsec_)[\w-]{16,}/g, by: REDACTED },
  { look: /:\/\/[^\s/?#]*@/, pattern: /(\w:\/\/)[^\s/?#]*@/g, by: `$1${REDACTED}@` },
  { look: /\/services\//, pattern: /(hooks\.slack\.com\/services\/)[\w/]+/g, by: `$1${REDACTED}` },
  {
    look: /bearer|basic/i,
    pattern: /\b(bearer|basic)(\s{1,8})[\w.~+/=-]{8,}/gi,
    by: `$1$2${REDACTED}`,
  },
  {
    look: /=|"\s{0,8}:/,
    pattern:
      /(password|passwd|pwd|passphrase|secret|token|api[_-]?key|access[_-]?key|authorization|cookie)(=|"\s{0,8}:\s{0,8}")(?!\[redacted\])[^\s"'&,;]{3,}/gi,
    by: `$1$2${REDACTED}`,
  },
];

const CUT = "[cut]";
const CUT_MARGIN = 200;
/** No secret that a pattern knows is shorter. */
const SHORTEST = 8;
const NAME_LENGTH_MAX = 256;
const DEPTH_MAX = 16;
const NODES_MAX = 10_000;
const CHARS_MAX = 512 * 1024;
