import type { Setting } from "../../../../src/client/schema.ts";
import { href } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { copyText, RequestMenu } from "../../kit/action.tsx";
import { addExplainer } from "../../kit/explain.tsx";
import { Facts, Id, Section } from "../../kit/layout.tsx";
import { Prose } from "../../kit/prose.tsx";
import { Empty, Show } from "../../kit/state.tsx";
import { valueText } from "./value-text.ts";

addExplainer("setting", SettingExplanation, "Why does this setting have its value?");

function SettingExplanation({ id }: { readonly id: string }) {
  const settings = useResource("explain setting", (signal) => api.value.request("GET /settings", {}, { signal }), {
    refreshMs: 10_000,
  });
  return (
    <Show of={settings} what="the setting">
      {({ items }) => {
        const setting = items.find(({ name }) => name === id);
        return setting === undefined ? <Empty title={`no setting ${id}`} /> : <Explained setting={setting} />;
      }}
    </Show>
  );
}

function Explained({ setting }: { readonly setting: Setting }) {
  const { name, help, value, origin, baseline, range, environment, live } = setting;
  const line = `${name}: ${value ?? setting.default ?? "…"}`;
  return (
    <>
      <p class="lead">
        <strong>{valueText(setting, value)}</strong> {ORIGINS[origin.kind]}
      </p>
      <Facts
        of={[
          ["setting", <Id key="name" id={name} />],
          ["what it changes", <Prose key="help" text={help} />],
          ["from", origin.place],
          ["default", valueText(setting, setting.default)],
          ["baseline", valueText(setting, baseline)],
          ["allowed", range.replaceAll("`", "")],
          ["environment", <Id key="environment" id={environment} />],
          ["a change", live ? "of the config file is applied while running" : "requires a restart"],
          ["rollouts", origin.kind === "rollout" && <a href={href("/rollouts", {})}>that promoted it</a>],
        ]}
      />
      <Section title="In cordum.yaml">
        <div class="buttons">
          <button type="button" class="command mono" title="copy" onClick={() => void copyText(line)}>
            {line}
          </button>
          <RequestMenu label={name} request={{ name: "GET /settings" }} cli={["config explain", name]} />
        </div>
      </Section>
    </>
  );
}

/** Later ones win: default, config file, environment, flag, rollout. */
const ORIGINS: Readonly<Record<Setting["origin"]["kind"], string>> = {
  default: "is the default: no file, variable or flag sets it",
  baseline: "is the value of profile baseline: no file, variable or flag sets it",
  file: "is set by the config file; no variable or flag replaces it",
  environment: "is set by an environment variable, which replaces the config file",
  flag: "is set by a flag, which replaces variables and the config file",
  rollout: "was promoted by a rollout, which replaces the configuration",
};
