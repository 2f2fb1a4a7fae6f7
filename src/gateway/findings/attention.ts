/** What needs an operator, most urgent first: findings with the request, or the page, that resolves each. */
import { type TSchema, Type } from "typebox";
import { orNull, TEXT_OR_NULL } from "../views/schemas.ts";
import type { Finding } from "./finding.ts";

export interface Attention {
  readonly severity: "danger" | "caution" | "info";
  readonly kind: string;
  readonly title: string;
  readonly detail: string;
  readonly count: number | null;
  readonly since: string | null;
  readonly action: Action | null;
  /** A page of the dashboard. */
  readonly link: string;
}

export interface Action {
  readonly label: string;
  readonly method: "POST" | "DELETE";
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>> | null;
  /** Null: no command does the same. */
  readonly cli: string | null;
  /** The access that the request needs. */
  readonly access: string;
}

export const ATTENTION: TSchema = Type.Object(
  {
    severity: Type.Enum(["danger", "caution", "info"]),
    kind: Type.String(),
    title: Type.String(),
    detail: Type.String({ description: "What to do." }),
    count: orNull(Type.Integer()),
    since: TEXT_OR_NULL,
    action: orNull(
      Type.Object({
        label: Type.String(),
        method: Type.Enum(["POST", "DELETE"]),
        path: Type.String(),
        body: orNull(Type.Record(Type.String(), Type.Unknown({ description: "A field of the request." }))),
        cli: orNull(Type.String({ description: "The same as a command." })),
        access: Type.String({ description: "One of the caller's `permissions` is needed." }),
      }),
    ),
    link: Type.String({ description: "The page of the dashboard that shows it." }),
  },
  { title: "Attention" },
);

export function attentionOf(finding: Finding): Attention {
  const { level, code, what, fix, about } = finding;
  return {
    severity: level,
    kind: code,
    title: what,
    detail: fix,
    count: about?.count ?? null,
    since: about?.since ?? null,
    action: actionOf(finding),
    link: LINKS[code] ?? "/settings",
  };
}

/** Only what one request resolves and what does not need a look first. */
function actionOf({ code, next, about }: Finding): Action | null {
  const { id } = about ?? {};
  if (id === undefined || next === null) return null;
  switch (code) {
    case "killed":
      return {
        ...{ label: "Release", method: "POST", path: "/api/v1/kill/release", body: { scope: id }, cli: next },
        access: id === "*" ? "system" : "admin",
      };
    case "fail_open": {
      const path = `/api/v1/failopen/${encodeURIComponent(id)}/close`;
      return { label: "Close", method: "POST", path, body: {}, cli: next, access: "admin" };
    }
    case "rollout_proved": {
      const path = `/api/v1/rollouts/${encodeURIComponent(id)}/promote`;
      return { label: "Promote", method: "POST", path, body: {}, cli: next, access: "system" };
    }
    case "safety_unavailable": {
      const request = { method: "POST", path: "/api/v1/demo/kernel", body: { stopped: false } } as const;
      return { label: "Start the safety kernel", ...request, cli: "cordum demo start-kernel", access: "system" };
    }
    default:
      return null;
  }
}

const LINKS: Readonly<Record<string, string>> = {
  approvals: "/approvals",
  dead_letters: "/dead-letters",
  fail_open: "/policy",
  killed: "/settings",
  lock_hot: "/waves",
  no_keys: "/keys",
  no_keys_beyond_loopback: "/keys",
  no_workers: "/workers",
  no_worker_for_topic: "/workers",
  queue_old: "/jobs?state=SCHEDULED",
  retry_wave: "/waves",
  rollout_proved: "/rollouts",
  rollout_rolled_back: "/rollouts",
  safety_unavailable: "/policy",
  tenant_flood: "/jobs",
  unreviewed_bypasses: "/policy",
};
