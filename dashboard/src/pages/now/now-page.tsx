/** What is stuck, why, and which button fixes it. */
import type { Overview } from "../../../../src/client/schema.ts";
import { type Resource, useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Badge } from "../../kit/badge.tsx";
import { Page } from "../../kit/layout.tsx";
import { Show } from "../../kit/state.tsx";
import { Attention } from "./attention.tsx";
import { Figures } from "./figures.tsx";
import { Overrides } from "./overrides.tsx";
import { Budgets, Queues } from "./queues.tsx";
import { Rates } from "./rates.tsx";
import "./now.css";
import { mayDemo, Tour } from "./tour.tsx";

export function NowPage() {
  const overview = useResource("overview", (signal) => api.value.request("GET /overview", {}, { signal }), {
    refreshMs: REFRESH_MS,
  });
  const shown = overview.shown.value;
  const loaded = shown.kind === "ready" ? shown.value : null;
  return (
    <Page
      title="Now"
      beside={
        loaded !== null && <Badge tone={loaded.ready ? "good" : "bad"}>{loaded.ready ? "ready" : "not ready"}</Badge>
      }
    >
      <Show of={overview} what="the overview">
        {(value) => <NowView overview={value} of={overview} />}
      </Show>
    </Page>
  );
}

function NowView({ overview, of }: { readonly overview: Overview; readonly of: Resource<Overview> }) {
  const reload = () => void of.reload();
  return (
    <>
      <Overrides failOpen={overview.fail_open} kills={overview.kill} reload={reload} />
      {overview.demo && mayDemo() && <Tour reload={reload} />}
      <Attention items={overview.attention.filter(({ kind }) => !SHOWN_ABOVE.includes(kind))} reload={reload} />
      <Figures of={overview} />
      <Rates of={overview} />
      <Budgets of={overview} />
      <Queues of={overview} />
    </>
  );
}

/** `Overrides` shows them. */
const SHOWN_ABOVE = ["killed", "fail_open"];
const REFRESH_MS = 3_000;
