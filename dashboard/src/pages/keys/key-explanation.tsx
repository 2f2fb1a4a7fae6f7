import { href } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { addExplainer, Reasons } from "../../kit/explain.tsx";
import { Facts, Id } from "../../kit/layout.tsx";
import { Show } from "../../kit/state.tsx";
import { Time } from "../../kit/time.tsx";
import { KeyState } from "./key-state.tsx";
import { ROLES, type Role } from "./roles.ts";

/** Keys of `*` act for every tenant. */
const meaningOf = (role: Role, tenant: string): string =>
  tenant === "*" ? ROLES[role].replace("its tenant", "all tenants") : ROLES[role];

addExplainer("key", KeyExplanation, "What may this key do?");

function KeyExplanation({ id }: { readonly id: string }) {
  const explanation = useResource(
    `explain key ${id}`,
    (signal) => api.value.request("GET /keys/{id}/explain", { path: { id } }, { signal }),
    { refreshMs: 5_000 },
  );
  return (
    <Show of={explanation} what="the explanation">
      {({ key, permissions, reasons }) => (
        <>
          <p class="lead">
            <KeyState state={key.state} /> {meaningOf(key.role as Role, key.tenant)}
          </p>
          <Facts
            of={[
              ["name", key.name],
              ["key", <Id key="id" id={id} />],
              ["role", key.role],
              ["tenant", key.tenant === "*" ? "all tenants" : key.tenant],
              ["permissions", permissions.join(", ")],
              [
                "created",
                <>
                  <Time at={key.created_at} both /> by {key.created_by_name ?? key.created_by}
                </>,
              ],
              ["last used", key.last_used_at === null ? "no recorded use" : <Time at={key.last_used_at} both />],
              [
                "uses",
                <a key="audit" href={href("/audit", { actor: id })}>
                  in the audit log
                </a>,
              ],
              ["expires", key.expires_at === null ? "never" : <Time at={key.expires_at} both />],
              ["revoked", key.revoked_at && <Time at={key.revoked_at} both />],
              ["owner", key.person],
              ["actor", key.actor_id ?? key.actor_type],
            ]}
          />
          <Reasons of={reasons} />
        </>
      )}
    </Show>
  );
}
