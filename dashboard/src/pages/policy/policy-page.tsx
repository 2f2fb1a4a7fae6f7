/** The safety policy: its rules, a request tried on it, a draft compared with it, and its releases. */
import type { VNode } from "preact";
import { param } from "../../data/location.ts";
import { may } from "../../data/session.ts";
import { Page, Tabs } from "../../kit/layout.tsx";
import { draft } from "./draft.ts";
import { DraftView } from "./draft-view.tsx";
import "./policy.css";
import { ReleasesView } from "./releases-view.tsx";
import { RulesView } from "./rules-view.tsx";
import { TryView } from "./try-view.tsx";

const VIEWS: Readonly<Record<string, () => VNode>> = {
  rules: RulesView,
  try: TryView,
  draft: DraftView,
  releases: ReleasesView,
};

export function PolicyPage() {
  const mayEdit = may("system");
  const view = param("view") || "rules";
  const View = view === "draft" && !mayEdit ? RulesView : (VIEWS[view] ?? RulesView);
  const tabs = [
    ["rules", "Rules in force"],
    ["try", "Try a request"],
    ...(mayEdit ? [["draft", draft.value === null ? "Edit a draft" : "Draft (unpublished)"] as const] : []),
    ["releases", "Releases"],
  ] as const;
  return (
    <Page title="Policy" tab={view === "rules" ? "Policy" : `Policy: ${view}`}>
      <Tabs name="view" tabs={tabs} />
      <View />
    </Page>
  );
}
