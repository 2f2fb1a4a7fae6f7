export interface Finding {
  readonly level: "danger" | "caution";
  readonly code: string;
  readonly what: string;
  readonly fix: string;
  readonly next: string | null;
  /** For a user interface; the command line prints `what`. */
  readonly about?: FindingFacts;
}

export interface FindingFacts {
  readonly count?: number;
  /** ISO 8601. */
  readonly since?: string;
  /** The id or scope that the fix names. */
  readonly id?: string;
}

export function danger(code: string, what: string, fix: string, next: string | null, about?: FindingFacts): Finding {
  return { level: "danger", code, what, fix, next, ...(about && { about }) };
}

export function caution(code: string, what: string, fix: string, next: string | null, about?: FindingFacts): Finding {
  return { level: "caution", code, what, fix, next, ...(about && { about }) };
}

export interface DiskFacts {
  readonly path: string;
  readonly free_bytes: number;
  readonly size_bytes: number;
}

export function diskLow({ path, free_bytes, size_bytes }: DiskFacts): Finding {
  const percent = Math.floor((100 * free_bytes) / size_bytes);
  const left = `${formatBytes(free_bytes)} of ${formatBytes(size_bytes)} (${percent} %)`;
  const what = `the disk of ${path} is nearly full: ${left} free; a full disk stops all writes`;
  const fix = "free space or enlarge the disk; shorter `retention.jobs_ms` and `retention.runs_ms` keep less";
  return danger("disk_low", what, fix, `df -h ${path}`);
}

/** `512 MB`, `1.5 GB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1e9) return `${Math.round(bytes / 1e6)} MB`;
  return `${(bytes / 1e9).toFixed(bytes < 1e11 ? 1 : 0)} GB`;
}
