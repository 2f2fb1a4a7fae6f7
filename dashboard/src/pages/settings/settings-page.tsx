/** The settings in force with their origin, what the process promises, and what is dangerous about it. */
import { useResource } from "../../data/resource.ts";
import { api, who } from "../../data/session.ts";
import { Page, Section } from "../../kit/layout.tsx";
import { Note } from "../../kit/note.tsx";
import { Show } from "../../kit/state.tsx";
import { Findings } from "./findings.tsx";
import { ProcessFacts } from "./process-facts.tsx";
import { SettingsTable } from "./settings-table.tsx";
import "./setting-explanation.tsx";
import "./settings.css";

export function SettingsPage() {
  const status = useResource("status", (signal) => api.value.request("GET /status", {}, { signal }), {
    refreshMs: 10_000,
  });
  return (
    <Page title="Settings">
      <Show of={status} what="the status">
        {(value) => <ProcessFacts status={value} />}
      </Show>
      <Findings />
      {who.value?.tenant === "*" ? (
        <Settings />
      ) : (
        <Section title="Settings">
          <Note>The settings concern all tenants: only keys of all tenants read them.</Note>
        </Section>
      )}
    </Page>
  );
}

function Settings() {
  const settings = useResource("settings", (signal) => api.value.request("GET /settings", {}, { signal }), {
    refreshMs: 10_000,
  });
  return (
    <Show of={settings} what="settings">
      {({ items, process }) => <SettingsTable items={items} process={process} />}
    </Show>
  );
}
