/** The settings in force at the process that answers. */
import { Type } from "typebox";
import { type PromotedValues, settingStates, settingView } from "../../../config/explain.ts";
import { settingOf } from "../../../core/rollout/subject.ts";
import type { Engine } from "../../../engine/engine.ts";
import { ok, type Route } from "../../route.ts";
import { loadKeyNames } from "../../views/key-names.ts";
import { orNull } from "../../views/schemas.ts";

const VALUE = orNull(Type.Union([Type.String(), Type.Number()]));
const ORIGINS = ["default", "baseline", "file", "environment", "flag", "rollout"];

const SETTING = Type.Object(
  {
    name: Type.String(),
    value: VALUE,
    origin: Type.Object({
      kind: Type.Enum(ORIGINS),
      place: Type.String({ description: "Such as `cordum.yaml:3`, `CORDUM_HTTP_PORT` or `--port`." }),
    }),
    default: VALUE,
    baseline: orNull(
      Type.Union([Type.String(), Type.Number()], { description: "The default of `profile: baseline`." }),
    ),
    range: Type.String(),
    unit: orNull(Type.String({ description: "Of a number." })),
    environment: Type.String({ description: "The environment variable." }),
    live: Type.Boolean({ description: "Changes of the config file are applied while running; others need a restart." }),
    help: Type.String(),
  },
  { title: "Setting" },
);

export const SETTINGS_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/settings",
    summary: "List every setting of the answering process with its value and origin; secrets are hidden",
    access: "operate",
    allTenants: true,
    response: Type.Object({ process: Type.String(), items: Type.Array(SETTING), next_cursor: Type.Null() }),
    handle: async ({ engine, config }) =>
      ok({
        process: engine.world.name,
        items: settingStates(config(), await promotedIn(engine)).map(settingView),
        next_cursor: null,
      }),
  },
];

/** Of two promotions of a setting, the later one is in force. */
async function promotedIn({ rollouts, world }: Engine): Promise<PromotedValues> {
  const names = await loadKeyNames(
    world.store,
    rollouts.promoted.map(({ by }) => by),
  );
  return new Map(
    rollouts.promoted.map(({ id, subject, treatment, by }) => [
      settingOf(subject),
      { value: treatment, origin: { kind: "rollout", place: `rollout ${id}, promoted by ${names.get(by) ?? by}` } },
    ]),
  );
}
