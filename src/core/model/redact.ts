/**
 * Removes secrets from everything that is shown: logs, audit, API views, problem documents, events. Stored records keep
 * them, because a retry needs its input.
 *
 * 1. By name: values under `password`, `token`, `api_key`, `Authorization`, `cookie`, `ssn` and similar, at any depth.
 * 2. By pattern: private keys, JWTs, keys of well-known services and of Cordum, card numbers, passwords in URLs, in `name=value`,
 *    in `name: value` and after a flag, in values and in names; items of a list after such a flag.
 * 3. By path: the setting `redaction.paths`, such as `input.card.number`; `*` matches one segment.
 * 4. It never throws and its work is bounded: what is too deep or too large is replaced by `[cut]`.
 */
export const REDACTED = "[redacted]";

export interface RedactOptions {
  /** Paths to redact (3). */
  readonly paths?: readonly string[];
  /** The path of the value itself: with `input`, the path `input.card` matches its `card`. */
  readonly at?: string;
  /** Receives the paths of hidden values. */
  readonly hidden?: string[];
}

/** A redacted copy of a JSON value. */
export function redact(value: unknown, options: RedactOptions = {}): unknown {
  const paths = (options.paths ?? []).map((path) => path.split("."));
  const budget: Budget = { nodes: NODES_MAX, chars: CHARS_MAX };
  const clean = redactValue(value, descend(paths, options.at ? options.at.split(".") : []), 0, budget);
  if (options.hidden) findHidden(value, clean, options.at ?? "", options.hidden);
  return clean;
}

/** Compares the value with its redacted copy, which has the same shape down to the hidden values. */
function findHidden(value: unknown, clean: unknown, path: string, hidden: string[]): void {
  if (hidden.length >= HIDDEN_MAX || value === clean) return;
  const isInside = typeof value === "object" && value !== null && typeof clean === "object" && clean !== null;
  if (!isInside) {
    hidden.push(path);
    return;
  }
  const [values, cleans] = [Object.entries(value), Object.entries(clean)];
  for (const [at, [name, inner]] of values.entries()) {
    const [cleanName, cleanInner] = cleans[at] ?? ["", undefined];
    findHidden(inner, cleanInner, path === "" ? cleanName : `${path}.${cleanName}`, hidden);
    if (name !== cleanName && hidden.length < HIDDEN_MAX) hidden.push(`${path}.${cleanName}`);
  }
}

export function redactText(text: string): string {
  if (text.length < SHORTEST || !SUSPECT.test(text)) return text;
  let clean = text;
  for (const { look, pattern, by } of PATTERNS) if (look.test(clean)) clean = clean.replace(pattern, by);
  return CARD_LOOK.test(clean) ? clean.replace(CARD, (digits) => (isCardNumber(digits) ? REDACTED : digits)) : clean;
}

/** The Luhn check of ISO/IEC 7812, and a first digit that card issuers use. */
function isCardNumber(text: string): boolean {
  const digits = text.replace(/\D/g, "");
  if (!/^[2-6]/.test(digits)) return false;
  let sum = 0;
  for (let at = 0; at < digits.length; at++) {
    const digit = Number(digits[digits.length - 1 - at]);
    sum += at % 2 === 0 ? digit : digit > 4 ? 2 * digit - 9 : 2 * digit;
  }
  return sum % 10 === 0;
}

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

/** `paths` are relative to this value; an empty path means the value itself. */
function redactValue(value: unknown, paths: readonly Path[], depth: number, budget: Budget): unknown {
  if (paths.some((path) => path.length === 0)) return REDACTED;
  if (typeof value === "string") return redactWithin(value, budget);
  if (typeof value === "number" && value >= CARD_MIN && isCardNumber(String(value))) return REDACTED;
  if (typeof value !== "object" || value === null) return typeof value === "bigint" ? String(value) : value;
  if (depth >= DEPTH_MAX || budget.nodes <= 0) return CUT;
  if (Array.isArray(value)) {
    const items: unknown[] = [];
    for (const [at, item] of value.entries()) {
      if (budget.nodes-- <= 0) return [...items, CUT];
      const isAfterFlag = typeof item === "string" && isSecretFlag(value[at - 1]);
      items.push(isAfterFlag ? REDACTED : redactValue(item, descend(paths, [String(at)]), depth + 1, budget));
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
    entries.push([
      redactText(name),
      isSecret ? REDACTED : redactValue(item, descend(paths, [name]), depth + 1, budget),
    ]);
  }
  return Object.fromEntries(entries);
}

const isSecretFlag = (item: unknown): boolean =>
  typeof item === "string" && item.length <= 64 && SECRET_FLAG.test(item);

function redactWithin(text: string, budget: Budget): string {
  const left = Math.max(0, budget.chars);
  budget.chars -= text.length;
  // A secret may span the cut, so a margin is removed with it.
  if (text.length > left) return `${redactText(text.slice(0, left)).slice(0, -CUT_MARGIN)}${CUT}`;
  return redactText(text);
}

type Path = readonly string[];

function descend(paths: readonly Path[], steps: Path): readonly Path[] {
  if (paths.length === 0) return paths;
  return steps.reduce<readonly Path[]>(
    (left, step) => left.filter(([first]) => first === step || first === "*").map((path) => path.slice(1)),
    paths,
  );
}

/** Cheap prefilters: true wherever one of the patterns could match. */
const SUSPECT_NAME = /pass|pwd|secret|cred|auth|cookie|otp|cv[vc]|key|token|jwt|bearer|ssn|social|card/i;
const SUSPECT =
  /-----BEGIN|eyJ|A[A-Z]{3}[A-Z0-9]{16}|cordum_|AIza|gh[a-z]_|github_pat_|glpat-|xox|xapp|[sr]k[-_]|whsec_|:\/\/|\/services\/|[Bb][Ee][Aa][Rr][Ee][Rr]|[Bb][Aa][Ss][Ii][Cc]|=|:\s|"\s{0,8}:|[Pp][AaWw][SsDd]|--?\w|hf_|npm_|\d{4}/;

const SECRET_NAME = new RegExp(
  `(^|_)(${[
    "password|passwd|pwd|passphrase|passcode|secrets?|credentials?|authorization|cookies?|otp|cvv|cvc|ssn",
    "social_?security(_?(number|no))?|card_?(number|no)",
    "(api|access|private|secret|signing|encryption|client|auth|service|account)_?keys?",
    "(access|refresh|auth|id|session|bearer|api|csrf)_?tokens?",
  ].join("|")})(_|$)|(^|_)(token|jwt|bearer|pass|auth)$`,
);

interface Pattern {
  /** Cheap prefilter: true wherever the pattern could match. */
  readonly look: RegExp;
  readonly pattern: RegExp;
  readonly by: string;
}

/** All repetitions are bounded or consumed, so that no input causes quadratic backtracking. */
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
  { look: /hf_|npm_/, pattern: /\b(?:hf|npm)_[A-Za-z0-9]{16,}/g, by: REDACTED },
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
    // JSON in a text, also escaped.
    look: /"\s{0,8}:/,
    pattern:
      /((?:password|passwd|pwd|passphrase|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|authorization|cookie|(?<![A-Za-z0-9])(?:pass|auth|ssn))\\{0,4}"\s{0,8}:\s{0,8}\\{0,4}")(?!\[redacted\])(?:[^"\\]|\\[^"]){1,4096}/gi,
    by: `$1${REDACTED}`,
  },
  {
    look: /=/,
    pattern:
      /((?:password|passwd|pwd|passphrase|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|authorization|cookie|(?<![A-Za-z0-9])(?:pass|ssn))=)(?!\[redacted\])(?:"[^"]{1,256}"|'[^']{1,256}'|[^\s"'&,;]{3,})/gi,
    by: `$1${REDACTED}`,
  },
  {
    look: /:/,
    pattern:
      /(?<![A-Za-z0-9])((?:(?:password|passwd|pwd|passphrase)\s{0,4}:\s{0,4}|(?:secret|ssn|api[_-]?key|access[_-]?key|account[_-]?key)\s{0,4}:\s{1,4}))(?!\[redacted\])(?:"[^"]{1,256}"|'[^']{1,256}'|[^\s"'&,;]+)/gi,
    by: `$1${REDACTED}`,
  },
  {
    look: /--?\w/,
    pattern:
      /((?:^|\s)--?(?:[a-z]{1,20}-)?(?:password|passwd|pwd|pass|passphrase|secret|token|api-?key|access-?key)(?:\s{1,8}|=))(?!\[redacted\])(?!-)(?:"[^"]{1,256}"|'[^']{1,256}'|[^\s"'&,;]+)/gi,
    by: `$1${REDACTED}`,
  },
];

/** A flag of a command line that is given as a list; its value is the next item. */
const SECRET_FLAG =
  /^--?(?:[a-z]{1,20}-){0,3}(?:password|passwd|pwd|pass|passphrase|secret|token|api-?key|access-?key|auth)$/i;

const CARD_LOOK = /\d{4}/;
const CARD = /(?<![\d.-])\d(?:[ -]?\d){12,18}(?![\d-])/g;
const CARD_MIN = 1e12;

const CUT = "[cut]";
const CUT_MARGIN = 200;
/** The shortest secret that a pattern matches. */
const SHORTEST = 8;
const NAME_LENGTH_MAX = 256;
const DEPTH_MAX = 16;
const HIDDEN_MAX = 100;
const NODES_MAX = 10_000;
const CHARS_MAX = 512 * 1024;
