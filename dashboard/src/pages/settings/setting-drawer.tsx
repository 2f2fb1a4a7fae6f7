import type { Setting } from "../../../../src/client/schema.ts";
import { setParams } from "../../data/location.ts";
import { copyText, RequestMenu } from "../../kit/action.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Facts, Id } from "../../kit/layout.tsx";
import { Prose } from "../../kit/prose.tsx";
import { valueText } from "./value-text.ts";

/** One setting: `?setting=NAME`. */
export function SettingDrawer({ setting }: { readonly setting: Setting }) {
  const { name, help, value, origin, baseline, range, environment, live } = setting;
  const line = `${name}: ${value ?? setting.default ?? "…"}`;
  return (
    <Dialog kind="drawer" title={name} onClose={() => setParams({ setting: null })}>
      <p class="lead">
        <Prose text={help} />
      </p>
      <Facts
        of={[
          ["value", <strong key="value">{valueText(setting, value)}</strong>],
          ["from", origin.place],
          ["default", valueText(setting, setting.default)],
          ["baseline", valueText(setting, baseline)],
          ["allowed", range.replaceAll("`", "")],
          ["environment", <Id key="environment" id={environment} />],
          ["a change", live ? "of the config file is applied while running" : "requires a restart"],
        ]}
      />
      <h3>In cordum.yaml</h3>
      <div class="buttons">
        <button type="button" class="command mono" title="copy" onClick={() => void copyText(line)}>
          {line}
        </button>
        <RequestMenu label={name} request={{ name: "GET /settings" }} cli={["config explain", name]} />
      </div>
    </Dialog>
  );
}
