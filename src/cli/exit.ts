/** How commands end. The numbers are API: scripts branch on them. */
export const EXIT = {
  ok: 0,
  error: 1,
  usage: 2,
  notFound: 3,
  conflict: 4,
  denied: 5,
  /** Unavailable or over a limit: the same command may work later. */
  unavailable: 6,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** An error that a person can act on: what is wrong, and the next command to type. */
export class CliError extends Error {
  override readonly name = "CliError";
  readonly exitCode: ExitCode;
  /** null: the help of the command that was typed. */
  readonly next: string | null;
  /** For `--json`: members of the document beside the usual ones. */
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(exitCode: ExitCode, message: string, next: string | null, facts: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.exitCode = exitCode;
    this.next = next;
    this.facts = facts;
  }
}

export function exitCodeForStatus(status: number): ExitCode {
  switch (status) {
    case 400:
    case 413:
    case 414:
    case 415:
    case 431:
      return EXIT.usage;
    case 401:
    case 403:
      return EXIT.denied;
    case 404:
      return EXIT.notFound;
    case 409:
    case 422:
      return EXIT.conflict;
    case 429:
    case 502:
    case 503:
    case 504:
      return EXIT.unavailable;
    default:
      return EXIT.error;
  }
}
