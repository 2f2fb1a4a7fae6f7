import type { Status } from "../../../../src/client/schema.ts";
import { Badge } from "../../kit/badge.tsx";
import { Facts, Section } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { duration } from "../../kit/numbers.ts";
import { Prose } from "../../kit/prose.tsx";
import { Time } from "../../kit/time.tsx";

export function ProcessFacts({ status }: { readonly status: Status }) {
  const { name, version, mode, profile, durability, uptime_ms: uptime, servers, warnings, duties, ready } = status;
  const late = Object.entries(duties).filter(([, ms]) => ms > LATE_MS);
  return (
    <div class="columns">
      <Section title="This process">
        <Facts
          of={[
            [
              "name",
              <span key="name" class="mono">
                {name}
              </span>,
            ],
            ["version", version],
            ["runs as", mode === "embedded" ? "embedded: one process, one data directory" : "part of a cluster"],
            ["state", <State key="state" ready={ready} because={status.not_ready_because} />],
            ["started", <Time key="started" at={Date.now() - uptime} both />],
            [
              "background loops",
              late.length === 0
                ? "all on time"
                : late.map(([duty, ms]) => `${duty.replaceAll("_", " ")} ${duration(ms)} late`).join(", "),
            ],
          ]}
        />
      </Section>
      <Section title="Promises">
        <Facts
          of={[
            [
              "profile",
              profile === "baseline" ? "baseline: the behaviour of the original design, for comparison" : profile,
            ],
            ["durability", <strong key="durability">{durability.profile}</strong>],
            ["which means", durability.meaning],
            ["NATS", servers?.nats.version],
            ["store", servers && `${servers.redis.product} ${servers.redis.version}, ${servers.redis.durability}`],
            [
              "policy",
              <Prose
                key="policy"
                text={`${status.policy.source}, ${status.policy.rules} rules, otherwise ${status.policy.default_decision}`}
              />,
            ],
          ]}
        />
        {warnings.map((warning) => (
          <Note key={warning} tone="warn">
            <Prose text={warning} />
          </Note>
        ))}
      </Section>
    </div>
  );
}

function State({ ready, because }: { readonly ready: boolean; readonly because: string | undefined }) {
  return (
    <>
      <Badge tone={ready ? "good" : "bad"}>{ready ? "ready" : "not ready"}</Badge> {because}
    </>
  );
}

const LATE_MS = 5_000;
