/** Policies as they were published, whole: each bundle is one document, with the rules of all tenants in it. */
import { Type } from "typebox";
import {
  IN_FORCE,
  POLICY_CHOICE,
  POLICY_RELEASES,
  POLICY_TEXTS,
  RELEASES_LIST,
} from "../../core/model/policy-release.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import { listPage, PAGE_QUERY, pageOf } from "../views/page.ts";
import { releaseView } from "../views/policy-views.ts";

const BUNDLE = {
  bundle_id: Type.String({ description: "The id of its release." }),
  snapshot: Type.String(),
  name: Type.String(),
  version: Type.Union([Type.String(), Type.Null()]),
  rules: Type.Integer({ description: "How many." }),
  in_force: Type.Boolean(),
};

export const BUNDLE_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/policy/bundles",
    summary: "Policies that were published and are kept, newest first",
    access: "read",
    everyTenant: true,
    query: PAGE_QUERY,
    answer: pageOf(Type.Object(BUNDLE, { additionalProperties: true })),
    handle: async ({ engine }, { query }) => {
      const inForceId = await inForceIn(engine);
      return listPage(engine.world.store, POLICY_RELEASES, RELEASES_LIST, query, ({ value }) =>
        bundleView(releaseView(value, inForceId)),
      );
    },
  },
  {
    method: "GET",
    path: "/api/v1/policy/bundles/:id",
    summary: "One of them with its text",
    access: "read",
    everyTenant: true,
    answer: Type.Object({ ...BUNDLE, policy: Type.String({ description: "As it was published, in YAML." }) }),
    handle: getBundle,
  },
];

async function getBundle({ engine }: Gateway, { params }: GatewayRequest): Promise<Answer> {
  const id = params.id ?? "";
  const { store } = engine.world;
  const [release, text] = await Promise.all([store.load(POLICY_RELEASES, id), store.load(POLICY_TEXTS, id)]);
  if (release === null || text === null) {
    const detail = `no policy \`${id.slice(0, 100)}\` is kept; \`GET /api/v1/policy/bundles\` lists them`;
    throw new Problem("snapshot_not_found", detail);
  }
  return ok({ ...bundleView(releaseView(release.value, await inForceIn(engine))), policy: text.value.text });
}

async function inForceIn({ world }: Gateway["engine"]): Promise<string | null> {
  return (await world.store.load(POLICY_CHOICE, IN_FORCE))?.value.releaseId ?? null;
}

function bundleView(release: object): object {
  const { release_id, ...rest } = release as { readonly release_id: string };
  return { bundle_id: release_id, ...rest };
}
