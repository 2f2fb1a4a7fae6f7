/**
 * The pages of the dashboard. A page is a component in its own chunk, loaded when it is first opened. `path` can have
 * parameters (`/jobs/:id`), which are the props of the component.
 */
import type { VNode } from "preact";
import type { Access } from "../data/session.ts";

/** Its props are the parameters of its path. */
export type PageView = (props: never) => VNode | null;

export interface PageEntry {
  readonly path: string;
  readonly load: () => Promise<PageView>;
}

export interface NavEntry {
  readonly path: string;
  readonly text: string;
  /** Second key of the shortcut `g …`. */
  readonly key: string;
  readonly needs?: Access;
  /** Served for `*` keys only. */
  readonly isForAllTenants?: true;
}

export const NAV: readonly (readonly [string, readonly NavEntry[]])[] = [
  [
    "Operate",
    [
      { path: "/", text: "Now", key: "n" },
      { path: "/jobs", text: "Jobs", key: "j" },
      { path: "/runs", text: "Runs", key: "r" },
      { path: "/approvals", text: "Approvals", key: "a" },
      { path: "/dead-letters", text: "Dead letters", key: "d" },
      { path: "/waves", text: "Waves", key: "w", isForAllTenants: true },
      { path: "/schedules", text: "Schedules", key: "s" },
      { path: "/workers", text: "Workers", key: "o" },
    ],
  ],
  [
    "Change",
    [
      { path: "/policy", text: "Policy", key: "p" },
      { path: "/rollouts", text: "Rollouts", key: "l", isForAllTenants: true },
    ],
  ],
  [
    "Administer",
    [
      { path: "/audit", text: "Audit", key: "u", needs: "operate" },
      { path: "/keys", text: "Keys", key: "k", needs: "admin" },
      { path: "/settings", text: "Settings", key: "t" },
    ],
  ],
  [
    "Experiment",
    [
      { path: "/lab", text: "Lab", key: "b", needs: "operate" },
      { path: "/simulator", text: "Simulator", key: "m", needs: "operate" },
    ],
  ],
];

export const PAGES: readonly PageEntry[] = [
  { path: "/", load: async () => (await import("./now/now-page.tsx")).NowPage },
  { path: "/jobs", load: async () => (await import("./jobs/jobs-page.tsx")).JobsPage },
  { path: "/jobs/:id", load: async () => (await import("./jobs/job-page.tsx")).JobPage },
  { path: "/runs", load: async () => (await import("./runs/runs-page.tsx")).RunsPage },
  { path: "/approvals", load: async () => (await import("./approvals/approvals-page.tsx")).ApprovalsPage },
  { path: "/dead-letters", load: async () => (await import("./dead-letters/dead-letters-page.tsx")).DeadLettersPage },
  { path: "/dead-letters/:id", load: async () => (await import("./dead-letters/dead-letter-page.tsx")).DeadLetterPage },
  { path: "/simulator", load: async () => (await import("./simulator/simulator-page.tsx")).SimulatorPage },
  { path: "/lab", load: async () => (await import("./lab/lab-page.tsx")).LabPage },
  { path: "/waves", load: async () => (await import("./waves/waves-page.tsx")).WavesPage },
  { path: "/audit", load: async () => (await import("./audit/audit-page.tsx")).AuditPage },
  { path: "/settings", load: async () => (await import("./settings/settings-page.tsx")).SettingsPage },
  { path: "/schedules", load: async () => (await import("./schedules/schedules-page.tsx")).SchedulesPage },
  { path: "/schedules/:id", load: async () => (await import("./schedules/schedule-page.tsx")).SchedulePage },
  { path: "/keys", load: async () => (await import("./keys/keys-page.tsx")).KeysPage },
  { path: "/workers", load: async () => (await import("./workers/workers-page.tsx")).WorkersPage },
  { path: "/policy", load: async () => (await import("./policy/policy-page.tsx")).PolicyPage },
  { path: "/rollouts", load: async () => (await import("./rollouts/rollouts-page.tsx")).RolloutsPage },
  { path: "/rollouts/:id", load: async () => (await import("./rollouts/rollout-page.tsx")).RolloutPage },
  { path: "/runs/:id", load: async () => (await import("./runs/run-page.tsx")).RunPage },
];

/** The page of a path with its parameters; null if there is none. */
export function pageOf(path: string): { readonly page: PageEntry; readonly params: Record<string, string> } | null {
  for (const page of PAGES) {
    const params = match(page.path, path);
    if (params !== null) return { page, params };
  }
  return null;
}

function match(pattern: string, path: string): Record<string, string> | null {
  const [wanted, given] = [pattern.split("/"), path.replace(/(?<=.)\/$/, "").split("/")];
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [at, part] of wanted.entries()) {
    const text = given[at] ?? "";
    if (part.startsWith(":")) params[part.slice(1)] = decode(text);
    else if (part !== text) return null;
  }
  return params;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
