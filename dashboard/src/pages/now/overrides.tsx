/** Fail-open leases and kill switches in force: what a session must not overlook. */
import type { KillSwitch, Overview } from "../../../../src/client/schema.ts";
import { Action } from "../../kit/action.tsx";
import { Icon } from "../../kit/icon.tsx";
import { Countdown, Time } from "../../kit/time.tsx";

interface OverridesProps {
  readonly failOpen: Overview["fail_open"];
  readonly kills: readonly KillSwitch[];
  readonly reload: () => void;
}

const scopeText = (scope: string): string => (scope === "*" ? "all tenants" : `tenant ${scope}`);

export function Overrides({ failOpen, kills, reload }: OverridesProps) {
  return (
    <>
      {failOpen.map(({ id, scope, reason, ends_at }) => (
        <div key={id} class="override" role="alert">
          <Icon name="alert" />
          <div>
            <p class="override-title">
              Fail-open lease for {scopeText(scope)}: <Countdown at={ends_at} />
            </p>
            <p>While the kernel is unavailable, jobs are dispatched without a safety check. Reason: {reason}</p>
          </div>
          <Action
            label="Close the lease"
            needs="admin"
            tone="danger"
            send="POST /failopen/{id}/close"
            args={{ path: { id } }}
            cli={["failopen close", id]}
            done="fail-open lease closed"
            onDone={reload}
          />
        </div>
      ))}
      {kills.map(({ scope, reason, engaged_by, engaged_at }) => (
        <div key={scope} class="override" role="alert">
          <Icon name="alert" />
          <div>
            <p class="override-title">
              Kill switch engaged for {scopeText(scope)}, <Time at={engaged_at} />
            </p>
            <p>
              Nothing is dispatched. Engaged by {engaged_by}: {reason}
            </p>
          </div>
          <Action
            label="Release"
            needs={scope === "*" ? "system" : "admin"}
            tone="danger"
            send="POST /kill/release"
            args={{ body: { scope } }}
            cli={["kill release", scope]}
            confirm={{
              title: `Release the kill switch for ${scopeText(scope)}?`,
              text: "Dispatch resumes at once.",
              reason: { field: "reason", label: "Reason" },
            }}
            done="kill switch released"
            onDone={reload}
          />
        </div>
      ))}
    </>
  );
}
