/** What an operator can do with a rollout in its state. Automation only aborts: a promotion is a person's decision. */
import type { RolloutDetail } from "../../../../src/client/schema.ts";
import { Action, type ActionProps } from "../../kit/action.tsx";
import { movesOf, type RolloutMove, tenantsText } from "./verdict.ts";

interface Props {
  readonly rollout: RolloutDetail;
  readonly onDone: () => void;
}

export function RolloutActions({ rollout, onDone }: Props) {
  const moves = movesOf(rollout.state);
  return (
    <>
      {moves.map((move) =>
        move === "promote" ? (
          <Promote key={move} {...{ rollout, onDone }} />
        ) : (
          <Move key={move} {...{ move, rollout, onDone }} />
        ),
      )}
    </>
  );
}

const REASON = { field: "reason", label: "Reason, for the audit log" } as const;

type Simple = Exclude<RolloutMove, "promote">;

function Move({ move, rollout, onDone }: Props & { readonly move: Simple }) {
  const { id } = rollout;
  const { label, text, done, tone } = describe(move, rollout);
  const shared = { args: { path: { id }, body: {} }, done, onDone } as const;
  return (
    <Action
      {...shared}
      label={label}
      needs="system"
      {...(tone === undefined ? {} : { tone })}
      send={`POST /rollouts/{id}/${move}`}
      cli={[`rollout ${move}`, id]}
      confirm={{ title: `${label} ${id}?`, text, reason: REASON }}
    />
  );
}

interface Description {
  readonly label: string;
  readonly text: string;
  readonly done: string;
  readonly tone?: ActionProps<"POST /rollouts/{id}/pause">["tone"];
}

function describe(move: Simple, { state, control, policy, setting, orgs }: RolloutDetail): Description {
  switch (move) {
    case "pause":
      return {
        label: "Pause",
        text: "No more units are enrolled. Enrolled units keep their arm, and a breach still rolls back.",
        done: "rollout paused",
      };
    case "resume":
      return { label: "Resume", text: "Units are enrolled again.", done: "rollout resumed" };
    case "rollback":
      return {
        label: "Roll back",
        text: `Every process uses ${control} for ${setting} again within 60 seconds${state === "promoted" ? "" : `, also for the units that have ${policy}`}. This cannot be undone: start another rollout to try again.`,
        done: "rolled back",
        tone: "danger",
      };
    case "end":
      return {
        label: "End",
        text: `The comparison ends without a promotion: ${control} applies to ${tenantsText(orgs)}.`,
        done: "rollout ended",
      };
    default:
      return move satisfies never;
  }
}

/** Without a proof it needs `force` and a reason. */
function Promote({ rollout, onDone }: Props) {
  const { id, state, setting, policy, orgs } = rollout;
  const isProved = state === "proved";
  const effect = `${setting} becomes ${policy} for all units${orgs.length === 0 ? "" : " of all tenants, not only those that took part"}, in every process, without a restart, until it is rolled back.`;
  const proved = rollout.judged_gates.filter((gate) => gate.proved).length;
  return (
    <Action
      label={isProved ? "Promote" : "Promote without proof"}
      needs="system"
      {...(isProved ? { tone: "main" as const } : {})}
      send="POST /rollouts/{id}/promote"
      args={{ path: { id }, body: isProved ? {} : { force: true } }}
      cli={["rollout promote", id, ...(isProved ? [] : ["--force", "--reason", "..."])]}
      confirm={{
        title: `Promote ${id}?`,
        text: isProved ? (
          effect
        ) : (
          <>
            <p>
              <strong>
                {proved} of {rollout.judged_gates.length} gates are proved.
              </strong>{" "}
              Promote only what is known to be safe from elsewhere.
            </p>
            <p>{effect}</p>
          </>
        ),
        reason: { ...REASON, isRequired: !isProved },
      }}
      done="rollout promoted"
      onDone={onDone}
    />
  );
}
